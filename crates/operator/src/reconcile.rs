//! One pass over one cluster: observe → validate → plan, then act and publish. Commands to nodes are sent at once; whatever asks the API
//! server goes on in the background (`api_work`), so that a slow API server holds up no failover. Called by the controller, never
//! twice at once for one cluster.

use crate::api_work::{ApiWork, report_unreadable};
use crate::cache::ClusterName;
use crate::commands::CommandContext;
use crate::context::Context;
use crate::observe::observe;
use crate::watch::Guarded;
use api::cluster::ValkeyCluster;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action;
use planner::nodes::PodCommand;
use planner::{Observation, Plan, Report, Sidecar, Step, plan, validate};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How soon to plan again while pods are on their way: why they do not come is told in no watch.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// How soon to plan again about a trouble that is known and reported.
pub const IN_TROUBLE: Duration = Duration::from_secs(10);
/// How soon to plan again for a sidecar that may be on its way.
const SIDECARS_AWAITED: Duration = Duration::from_secs(5);
/// A new leader has heard everybody a moment after the time it gives them.
const AFTER_RETURN: Duration = Duration::from_millis(200);

pub async fn reconcile(cluster: Arc<Guarded>, context: Arc<Context>) -> Result<Action, Infallible> {
    Ok(match &cluster.0 {
        Ok(cluster) => pass(cluster, &context).await,
        Err(unreadable) => {
            report_unreadable(unreadable.clone(), &context);
            Action::requeue(IN_TROUBLE)
        }
    })
}

async fn pass(cluster: &ValkeyCluster, context: &Arc<Context>) -> Action {
    let ticket = context.api_work.ticket(cluster.metadata.uid.as_deref().unwrap_or_default());
    let observation = observe(cluster, context).await;
    let validated = validate(cluster, &context.settings, &observation);
    let Plan { steps, report, .. } = plan(validated.as_ref().map_err(Vec::as_slice), &observation, Timestamp::now());
    let (commands, writes): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(|step| step.command().is_some());
    let commands = commands.iter().filter_map(Step::command).cloned().collect();
    send(commands, &report, &observation, context);
    let next = next_pass(&report, &observation, context);
    ApiWork { ticket, cluster: cluster.clone(), observation, validated, writes, report }.start(context);
    Action::requeue(next)
}

/// Sends what the nodes are to be told. Streams are kept while something is under way.
fn send(commands: Vec<PodCommand>, report: &Report, observation: &Observation, context: &Context) {
    let Some(decision) = &report.nodes else { return };
    let identity = &observation.cluster;
    context.states.change(&identity.uid, |memory| memory.decided(decision));
    if commands.is_empty() && decision.orchestration.is_none() && decision.look_again.is_none() {
        return context.dispatcher.rest(&identity.uid, &observation.pods);
    }
    let (orchestration, step_version) = decision.fence();
    let command_context = CommandContext {
        cluster: ClusterName { namespace: identity.namespace.clone(), name: identity.name.clone() },
        cluster_uid: identity.uid.clone(),
        orchestration: orchestration.to_owned(),
        step_version,
    };
    context.dispatcher.send(&command_context, commands);
}

/// When to plan again if nothing happens before: for the nodes, for what was refused, for the certificates.
fn next_pass(report: &Report, observation: &Observation, context: &Context) -> Duration {
    let nodes = report.nodes.as_ref().and_then(|nodes| nodes.look_again).unwrap_or(Duration::MAX);
    let api = context.states.of(&observation.cluster.uid).next_api_work().unwrap_or(Duration::MAX);
    if report.deleting {
        return nodes.min(context.resync);
    }
    by_report(report, context).min(api).min(nodes)
}

fn by_report(report: &Report, context: &Context) -> Duration {
    if report.paused || report.is_settled() {
        // Spread, so that a thousand clusters are not planned for in the same second.
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
    let returning = context.line.roster.returning().map(|left| left + AFTER_RETURN);
    returning.or(awaited.then_some(SIDECARS_AWAITED))
}
