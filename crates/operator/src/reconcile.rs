//! One look at one cluster: observe → validate → plan → act → publish. Called by the controller, never twice at once for one cluster.

use crate::act::{self, Failure};
use crate::cache::ClusterName;
use crate::conduct::Errand;
use crate::context::Context;
use crate::identity::IdentityFacts;
use crate::observe::{identity, observe};
use crate::publish::{self, publish};
use crate::watch::Guarded;
use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use api::conditions::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action;
use planner::nodes::PodCommand;
use planner::{ChildKind, Observation, Plan, Report, Sidecar, Step, Why, plan, validate};
use std::sync::Arc;
use std::time::Duration;

/// How soon to look again while pods are on their way: why they do not come is told in no watch.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// How soon to look again at a trouble that is known and told.
const IN_TROUBLE: Duration = Duration::from_secs(10);
/// How soon to look again for a sidecar that may be on its way.
const SIDECARS_AWAITED: Duration = Duration::from_secs(5);
/// After a write, the watches bring the next look sooner than this.
const AFTER_WRITES: Duration = Duration::from_millis(200);

/// Why a look ended early. Waiting for something is none of these.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{step} failed: {detail}")]
    Act { step: String, detail: String, refused: bool },
    #[error("publishing failed: {0}")]
    Publish(#[from] publish::Error),
    #[error("the API server did not answer all requests within {0:?}")]
    TooLong(Duration),
}

impl Error {
    /// For metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Act { refused: true, .. } => "refused",
            Error::Act { refused: false, .. } => "failed",
            Error::Publish(_) => "not_published",
            Error::TooLong(_) => "too_long",
        }
    }
}

pub async fn reconcile(cluster: Arc<Guarded>, context: Arc<Context>) -> Result<Action, Error> {
    match &cluster.0 {
        Ok(cluster) => readable(cluster, &context).await,
        Err(unreadable) => report_unreadable(unreadable, &context).await,
    }
}

async fn readable(cluster: &ValkeyCluster, context: &Context) -> Result<Action, Error> {
    let observation = observe(cluster, context).await;
    let validated = validate(cluster, &context.settings, &observation);
    let now = Timestamp::now();
    let Plan { mut steps, mut report, .. } = plan(validated.as_ref().map_err(Vec::as_slice), &observation, now);
    let commands = steps.extract_if(.., |step| step.command().is_some());
    let commands = commands.filter_map(|step| step.command().cloned()).collect();
    // Before anything that asks the API server: a failover does not wait for that.
    conduct(commands, &report, &observation, context);
    let identity = context.identities.ensure(cluster, &observation.pods).await;
    await_identity(&identity, &mut steps, &mut report);
    let failures = act::act(&steps, &observation.cluster, context).await;
    if failures.iter().any(|failure| failure.error.is_farewell()) {
        return Ok(Action::requeue(IN_TROUBLE));
    }
    let previous = latest_status(&cluster.metadata, cluster.status.as_ref(), context);
    let acted = !steps.is_empty() && failures.is_empty();
    if acted && previous.as_ref().is_some_and(|status| status.observed_generation == cluster.metadata.generation) {
        // What was repaired at once is no news. The next look, which sees the result, tells.
        return Ok(Action::requeue(AFTER_WRITES.min(nodes_due(&report))));
    }
    account(&failures, &mut report, acted);
    if report.deleting {
        // Its objects are going as they should: nothing about it is news any more.
        return Ok(Action::await_change());
    }
    publish(&report, &observation.cluster, previous.as_ref(), context).await?;
    conclude(failures, acted, &report, &observation, context, identity.look_again)
}

/// Sends what the nodes are to be told. Streams are kept while something is under way.
fn conduct(commands: Vec<PodCommand>, report: &Report, observation: &Observation, context: &Context) {
    let Some(decision) = &report.nodes else { return };
    let identity = &observation.cluster;
    context.recent.change(&identity.uid, |memory| memory.decided(decision));
    if commands.is_empty() && decision.orchestration.is_none() && decision.look_again.is_none() {
        return context.conductor.rest(&identity.uid, &observation.pods);
    }
    let (orchestration, step_version) = decision.fence();
    let errand = Errand {
        cluster: ClusterName { namespace: identity.namespace.clone(), name: identity.name.clone() },
        cluster_uid: identity.uid.clone(),
        orchestration: orchestration.to_owned(),
        step_version,
    };
    context.conductor.send(&errand, commands);
}

/// When the nodes are to be looked at again.
fn nodes_due(report: &Report) -> Duration {
    report.nodes.as_ref().and_then(|nodes| nodes.look_again).unwrap_or(Duration::MAX)
}

/// Pods are not made before there is an identity for them; those that are there are never held up by it.
fn await_identity(identity: &IdentityFacts, steps: &mut Vec<Step>, report: &mut Report) {
    let Err(waiting) = &identity.ready else { return };
    let makes_pods = |step: &Step| matches!(step, Step::Apply(apply) if apply.key.kind == ChildKind::StatefulSet && apply.why == Why::Missing);
    steps.retain(|step| !makes_pods(step));
    report.waiting.push(format!("waits for {waiting}"));
}

/// Done steps are no longer pending; refused ones are troubles that somebody has to look at.
fn account(failures: &[Failure], report: &mut Report, acted: bool) {
    if acted || !failures.is_empty() {
        report.pending = failures.iter().map(|failure| failure.step.clone()).collect();
    }
    for failure in failures.iter().filter(|failure| failure.error.is_refusal()) {
        let detail = failure.error.detail();
        let reason = if detail.contains("exceeded quota") { Reason::QuotaExceeded } else { Reason::ObjectRefused };
        report.trouble(reason, format!("cannot {}: {detail}", failure.step));
    }
}

fn conclude(
    failures: Vec<Failure>,
    acted: bool,
    report: &Report,
    observation: &Observation,
    context: &Context,
    look_again: Duration,
) -> Result<Action, Error> {
    if let Some(Failure { step, error }) = failures.into_iter().next() {
        return Err(Error::Act { step, detail: error.detail(), refused: error.is_refusal() });
    }
    context.recent.change(&observation.cluster.uid, |memory| memory.failures = 0);
    Ok(Action::requeue(next_look(report, acted, context).min(look_again).min(nodes_due(report))))
}

fn next_look(report: &Report, acted: bool, context: &Context) -> Duration {
    if acted {
        AFTER_WRITES
    } else if report.paused || report.deleting || report.is_settled() {
        // Spread, so that a thousand clusters are not looked at in the same second.
        let rest = context.resync.mul_f64(0.75 + fastrand::f64() * 0.5);
        rest.min(sidecars_due(report, context).unwrap_or(rest))
    } else if report.troubles.is_empty() {
        UNDER_WAY
    } else {
        IN_TROUBLE
    }
}

/// When it will be known whether sidecars that are on their way came. Until then nothing tells that they did not.
fn sidecars_due(report: &Report, context: &Context) -> Option<Duration> {
    let awaited = report.sidecars.iter().any(Sidecar::is_awaited);
    let returning = context.line.roster.returning().map(|left| left + AFTER_WRITES);
    returning.or(awaited.then_some(SIDECARS_AWAITED))
}

/// The status in the cache may be older than the one this process wrote last.
fn latest_status(
    metadata: &ObjectMeta,
    cached: Option<&ValkeyClusterStatus>,
    context: &Context,
) -> Option<ValkeyClusterStatus> {
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let number = |text: &str| text.parse::<u128>().unwrap_or_default();
    let known = number(metadata.resource_version.as_deref().unwrap_or_default());
    let written = context.recent.of(uid).published.filter(|(version, _)| number(version) >= known);
    written.map(|(_, status)| status).or_else(|| cached.cloned())
}

/// Stored under another schema: nothing can be done but to say so.
async fn report_unreadable(unreadable: &InvalidObject, context: &Context) -> Result<Action, Error> {
    let cluster = identity(&unreadable.metadata);
    let mut report = Report { deleting: cluster.deleting, ..Report::default() };
    report.trouble(Reason::InvalidSpec, format!("the object cannot be read: {}", unreadable.error));
    let previous = latest_status(&unreadable.metadata, None, context);
    publish(&report, &cluster, previous.as_ref(), context).await?;
    Ok(Action::await_change())
}
