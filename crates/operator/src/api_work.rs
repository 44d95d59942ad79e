//! What a pass does at the API server: the identity of the sidecars, the writes of the plan, the status. In the background, one at a
//! time for each cluster; when it changed something or failed, the next pass follows at once. A failure is tried again with back-off.

use crate::act;
use crate::backoff;
use crate::cache::ClusterName;
use crate::context::Context;
use crate::observe::identity;
use crate::publish::{self, publish};
use crate::reconcile::IN_TROUBLE;
use api::cluster::{ValkeyCluster, ValkeyClusterStatus};
use api::conditions::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::core::error_boundary::InvalidObject;
use manifests::{Problem, ValidatedCluster};
use planner::{Observation, Report, SidecarIdentity, Step, WriteFailure, WriteOutcome, plan};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// All requests of one cluster together. Each has a deadline of its own; this one ends what would go on for ever.
const DEADLINE: Duration = Duration::from_secs(120);

/// Why the work ended early. Waiting for something is none of these.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{step} failed: {detail}")]
    Write { step: String, detail: String, refused: bool },
    #[error("publishing failed: {0}")]
    Publish(#[from] publish::Error),
    #[error("the API server did not answer all requests within {0:?}")]
    TooLong(Duration),
}

impl Error {
    /// For metrics.
    fn reason(&self) -> &'static str {
        match self {
            Error::Write { refused: true, .. } => "refused",
            Error::Write { refused: false, .. } => "failed",
            Error::Publish(_) => "not_published",
            Error::TooLong(_) => "too_long",
        }
    }
}

/// Which clusters have work at the API server under way.
#[derive(Default)]
pub struct Running {
    clusters: Mutex<HashMap<String, State>>,
    tasks: TaskTracker,
}

#[derive(Clone, Copy, Default)]
struct State {
    busy: bool,
    /// Grows whenever work ends.
    ended: u64,
}

/// How far the work of a cluster was when a pass began to observe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Running {
    fn clusters(&self) -> MutexGuard<'_, HashMap<String, State>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn ticket(&self, uid: &str) -> Ticket {
        Ticket(self.clusters().get(uid).copied().unwrap_or_default().ended)
    }

    /// False while this cluster's work is under way, and when some has ended since the ticket was taken: a plan from before is outdated.
    fn begin(&self, uid: &str, ticket: Ticket) -> bool {
        let mut clusters = self.clusters();
        let state = clusters.entry(uid.to_owned()).or_default();
        let may = !state.busy && Ticket(state.ended) == ticket;
        state.busy |= may;
        may
    }

    fn is_busy(&self, uid: &str) -> bool {
        self.clusters().get(uid).is_some_and(|state| state.busy)
    }

    fn end(&self, uid: &str) {
        if let Some(state) = self.clusters().get_mut(uid) {
            *state = State { busy: false, ended: state.ended + 1 };
        }
    }

    /// Forgets clusters that are no longer there.
    pub fn keep_clusters(&self, uids: &[String]) {
        self.clusters().retain(|uid, state| state.busy || uids.contains(uid));
    }

    /// Waits for what is under way; nothing may be begun any more.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// What one pass leaves to be done.
pub struct ApiWork {
    pub ticket: Ticket,
    pub cluster: ValkeyCluster,
    pub observation: Observation,
    pub validated: Result<ValidatedCluster, Vec<Problem>>,
    pub writes: Vec<Step>,
    pub report: Report,
}

/// What became of it.
#[derive(Default)]
struct Done {
    /// The next pass sees something new.
    changed: bool,
}

impl ApiWork {
    /// Begins, unless an earlier one is under way or a failure is waited out: a later pass plans again from what is true then.
    pub fn start(self, context: &Arc<Context>) {
        let uid = self.observation.cluster.uid.clone();
        if context.states.of(&uid).waits_out_failure() {
            return;
        }
        // Noted first: work that ends meanwhile must not miss it.
        context.states.change(&uid, |memory| memory.hold_back());
        if !context.api_work.begin(&uid, self.ticket) {
            return self.outdated(context);
        }
        context.states.change(&uid, |memory| memory.held_back());
        let context = context.clone();
        let tasks = context.api_work.tasks.clone();
        tasks.spawn(async move {
            let started = Instant::now();
            let name = ClusterName {
                namespace: self.observation.cluster.namespace.clone(),
                name: self.observation.cluster.name.clone(),
            };
            let result = timeout(DEADLINE, self.run(&context)).await.unwrap_or(Err(Error::TooLong(DEADLINE)));
            let outcome = result.as_ref().map_or_else(Error::reason, |_| "ok");
            context.metrics.reconciled(outcome, started.elapsed().as_secs_f64());
            conclude(&result, &uid, &name, &context);
            context.api_work.end(&uid);
            // A pass that began before this ended could do nothing at the API server.
            if result.map_or(true, |done| done.changed) || context.states.change(&uid, |memory| memory.held_back()) {
                context.line.scopes.wake(&name);
            }
        });
    }

    /// Work under way asks for the next pass when it ends; work that has ended already does not.
    fn outdated(&self, context: &Context) {
        let cluster = &self.observation.cluster;
        if !context.api_work.is_busy(&cluster.uid) {
            let name = ClusterName { namespace: cluster.namespace.clone(), name: cluster.name.clone() };
            context.line.scopes.wake(&name);
        }
    }

    async fn run(mut self, context: &Context) -> Result<Done, Error> {
        let identity_changed = self.ensure_identity(context).await;
        let failures = act::act(&self.writes, &self.observation.cluster, context).await;
        if failures.iter().any(|failure| failure.error.is_namespace_terminating()) {
            let uid = &self.observation.cluster.uid;
            context.states.change(uid, |memory| memory.wait_before_api_work(IN_TROUBLE));
            return Ok(Done::default());
        }
        let wrote = !self.writes.is_empty();
        let changed = wrote || identity_changed;
        if self.report.deleting {
            // Its objects are going as they should: nothing about it is news any more.
            return Ok(Done { changed });
        }
        let failures: Vec<WriteFailure> = failures.into_iter().map(act::Failure::into_fact).collect();
        let previous = latest_status(&self.cluster.metadata, self.cluster.status.as_ref(), context);
        let known = previous.as_ref().and_then(|status| status.observed_generation);
        if wrote && failures.is_empty() && known == self.cluster.metadata.generation {
            // What was repaired at once is no news. The next pass, which sees the result, tells.
            return Ok(Done { changed });
        }
        self.say(failures.clone(), wrote);
        publish(&self.report, &self.observation.cluster, previous.as_ref(), context).await?;
        failures.into_iter().next().map_or(Ok(Done { changed }), |failure| {
            Err(Error::Write { step: failure.step, detail: failure.detail, refused: failure.refused })
        })
    }

    /// The same plan again, now that it is known what became of its writes: only what it says is used.
    fn say(&mut self, failures: Vec<WriteFailure>, tried: bool) {
        if tried {
            self.observation.writes = WriteOutcome { tried, failures };
            let validated = self.validated.as_ref().map_err(Vec::as_slice);
            self.report = plan(validated, &self.observation, Timestamp::now()).report;
        }
    }

    /// True when that changes what may be planned.
    async fn ensure_identity(&self, context: &Context) -> bool {
        let facts = context.identities.ensure(&self.cluster, &self.observation.pods).await;
        let identity = facts.ready.map_or_else(SidecarIdentity::Waiting, |()| SidecarIdentity::Ready);
        let uid = &self.observation.cluster.uid;
        let changed = identity != self.observation.identity;
        context.states.change(uid, |memory| memory.identity_checked(identity, facts.requeue_after)) || changed
    }
}

/// Failures in a row make the next attempt wait longer.
fn conclude(result: &Result<Done, Error>, uid: &str, name: &ClusterName, context: &Context) {
    let Err(error) = result else { return context.states.change(uid, |memory| memory.failures = 0) };
    let delay = context.states.change(uid, |memory| {
        memory.failures = memory.failures.saturating_add(1);
        let delay = backoff::delay(memory.failures, fastrand::f64());
        memory.wait_before_api_work(delay);
        delay
    });
    tracing::warn!(cluster = name.name, namespace = name.namespace, %error, ?delay, "trying again later");
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
    let written = context.states.of(uid).published.filter(|(version, _)| number(version) >= known);
    written.map(|(_, status)| status).or_else(|| cached.cloned())
}

/// Stored under another schema: nothing can be done but to say so.
pub fn report_unreadable(unreadable: InvalidObject, context: &Arc<Context>) {
    let cluster = identity(&unreadable.metadata);
    if !context.api_work.begin(&cluster.uid, context.api_work.ticket(&cluster.uid)) {
        return;
    }
    let context = context.clone();
    let tasks = context.api_work.tasks.clone();
    tasks.spawn(async move {
        let mut report = Report { deleting: cluster.deleting, ..Report::default() };
        report.trouble(Reason::InvalidSpec, format!("the object cannot be read: {}", unreadable.error));
        let previous = latest_status(&unreadable.metadata, None, &context);
        if let Err(error) = publish(&report, &cluster, previous.as_ref(), &context).await {
            tracing::warn!(cluster = cluster.name, namespace = cluster.namespace, %error, "an unreadable object was not reported");
        }
        context.api_work.end(&cluster.uid);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_from_before_the_last_writes_is_not_carried_out() {
        let running = Running::default();
        let first = running.ticket("a");
        assert!(running.begin("a", first) && !running.begin("a", first), "one at a time");
        let during = running.ticket("a");
        assert!(running.begin("b", running.ticket("b")), "clusters do not wait for each other");
        running.end("a");
        assert!(!running.begin("a", during), "it was observed while the writes were under way");
        assert!(running.begin("a", running.ticket("a")));
    }

    #[test]
    fn clusters_that_are_gone_are_forgotten() {
        let running = Running::default();
        assert!(running.begin("gone", running.ticket("gone")));
        running.end("gone");
        running.keep_clusters(&[]);
        assert!(running.clusters().is_empty());
    }
}
