//! What a pass does at the API server: the writes of the plan, the status. In the background, one at a time for each object; when it
//! changed something or failed, the next pass follows at once. A failure is tried again with back-off.

use super::act;
use super::controller::Controller;
use super::kind::{Intent, Kind, Unreadable};
use super::object::{ObjectId, ObjectKey};
use super::publish::{self, Before, publish};
use api::stored::Stored;
use k8s_openapi::jiff::Timestamp;
use kube::core::object::HasStatus;
use kube::{Resource, ResourceExt};
use planner::{Step, WriteFailure, WriteOutcome};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// How soon to plan again about a trouble that is known and reported.
pub const IN_TROUBLE: Duration = Duration::from_secs(10);
/// All requests for one object together. Each has a deadline of its own; this one ends what would go on for ever.
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

/// Which objects have work at the API server under way.
#[derive(Default)]
pub struct Running {
    objects: Mutex<HashMap<ObjectKey, Progress>>,
    tasks: TaskTracker,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    busy: bool,
    /// Grows whenever work ends.
    ended: u64,
}

/// How far the work of an object was when a pass began to observe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Running {
    fn objects(&self) -> MutexGuard<'_, HashMap<ObjectKey, Progress>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn ticket(&self, id: &ObjectId) -> Ticket {
        Ticket(self.objects().get(&id.key).copied().unwrap_or_default().ended)
    }

    /// False while this object's work is under way, and when some has ended since the ticket was taken: a plan from before is outdated.
    fn begin(&self, id: &ObjectId, ticket: Ticket) -> bool {
        let mut objects = self.objects();
        let progress = objects.entry(id.key.clone()).or_default();
        let may = !progress.busy && Ticket(progress.ended) == ticket;
        progress.busy |= may;
        may
    }

    fn is_busy(&self, id: &ObjectId) -> bool {
        self.objects().get(&id.key).is_some_and(|progress| progress.busy)
    }

    fn end(&self, id: &ObjectId) {
        if let Some(progress) = self.objects().get_mut(&id.key) {
            *progress = Progress { busy: false, ended: progress.ended + 1 };
        }
    }

    /// Forgets an object that is gone.
    pub fn end_object(&self, key: &ObjectKey) {
        let mut objects = self.objects();
        if objects.get(key).is_some_and(|progress| !progress.busy) {
            objects.remove(key);
        }
    }

    /// Waits for what is under way; nothing may be begun any more.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// What one pass leaves to be done.
pub struct ApiWork<K: Kind> {
    pub id: ObjectId,
    pub ticket: Ticket,
    pub object: K::Object,
    pub observation: K::Observation,
    pub intent: Intent<K::Status, K::Details>,
}

/// What became of it.
#[derive(Default)]
struct Done {
    /// The next pass sees something new.
    changed: bool,
}

impl<K: Kind> ApiWork<K> {
    /// Begins, unless an earlier one is under way or a failure is waited out: a later pass plans again from what is true then.
    pub fn start(self, controller: &Arc<Controller<K>>) {
        if controller.states.change(&self.id, |state| state.work.left().is_some()) {
            return;
        }
        // Noted first: work that ends meanwhile must not miss it.
        controller.states.change(&self.id, |state| state.hold_back());
        if !controller.api_work.begin(&self.id, self.ticket) {
            return self.outdated(controller);
        }
        controller.states.change(&self.id, |state| {
            state.held_back();
            state.begins_to_write(&self.intent.steps);
        });
        let controller = controller.clone();
        let tasks = controller.api_work.tasks.clone();
        tasks.spawn(async move {
            let (started, id) = (Instant::now(), self.id.clone());
            let result = timeout(DEADLINE, self.run(&controller)).await.unwrap_or(Err(Error::TooLong(DEADLINE)));
            let outcome = result.as_ref().map_or_else(Error::reason, |_| "ok");
            controller.scope.metrics.reconciled(outcome, started.elapsed().as_secs_f64());
            controller.states.change_known(&id, |state| state.has_written(result.is_ok()));
            controller.conclude(&id, &result);
            controller.api_work.end(&id);
            // A pass that began before this ended could do nothing at the API server.
            let held_back = controller.states.change_known(&id, |state| state.held_back());
            // So could one over a successor of the same name, which has a memory of its own.
            if result.map_or(true, |done| done.changed) || held_back.unwrap_or(true) {
                controller.scope.queues.wake(&id.key);
            }
            if let Some(time) = controller.states.change_known(&id, |state| state.tell_after()).flatten() {
                tokio::time::sleep(time).await;
                controller.scope.queues.wake(&id.key);
            }
        });
    }

    /// Work under way asks for the next pass when it ends; work that has ended already does not.
    fn outdated(&self, controller: &Controller<K>) {
        if !controller.api_work.is_busy(&self.id) {
            controller.scope.queues.wake(&self.id.key);
        }
    }

    async fn run(mut self, controller: &Controller<K>) -> Result<Done, Error> {
        if controller.kind.prepare(&self.object, &self.observation, &controller.scope).await {
            return Ok(Done { changed: true });
        }
        let writes: Vec<&Step> = self.intent.steps.iter().filter(|step| step.command().is_none()).collect();
        let failures = act::act(&writes, &self.object, &self.id, controller).await;
        if failures.iter().any(|failure| failure.error.is_namespace_terminating()) {
            controller.states.change(&self.id, |state| state.work.wait(IN_TROUBLE));
            return Ok(Done::default());
        }
        let wrote = !writes.is_empty();
        if self.intent.silent {
            // Its objects are going as they should: nothing about it is news any more.
            return Ok(Done { changed: wrote });
        }
        let failures: Vec<WriteFailure> = failures.into_iter().map(act::Failure::into_fact).collect();
        let stored = self.object.status();
        let previous = controller.published_status(&self.id).or_else(|| stored.cloned());
        let known = previous.as_ref().and_then(K::observed_generation);
        if wrote && failures.is_empty() && known == self.object.meta().generation {
            // What was repaired at once is no news. The next pass, which sees the result, tells.
            return Ok(Done { changed: wrote });
        }
        if wrote {
            self.plan_again(failures.clone(), previous.as_ref(), controller);
        }
        let told = self.tell(previous.as_ref(), controller).await;
        failures.into_iter().next().map_or(Ok(()), |failure| {
            Err(Error::Write { step: failure.step, detail: failure.detail, refused: failure.refused })
        })?;
        told.map(|()| Done { changed: wrote }).map_err(Error::from)
    }

    /// A status that cannot be written waits by itself.
    async fn tell(self, previous: Option<&K::Status>, controller: &Controller<K>) -> Result<(), publish::Error> {
        if controller.states.change(&self.id, |state| state.telling.left().is_some()) {
            return Ok(());
        }
        let stored = controller.stored_status(&self.object, self.object.status());
        let told = async {
            let before = Before { previous, stored: stored.as_ref() };
            publish(&self.id, self.intent.status, before, controller).await?;
            publish::others(&self.id, self.intent.other_statuses, controller).await
        };
        let told = told.await;
        controller.states.change_known(&self.id, |state| match &told {
            Ok(()) => state.telling.succeeded(),
            Err(_) => drop(state.telling.failed()),
        });
        if let Err(error) = &told {
            let (kind, name, namespace) = (&*self.id.key.kind, &self.id.key.name, &self.id.key.namespace);
            tracing::warn!(kind, name, namespace, %error, "trying again later");
        }
        told
    }

    /// The same plan again, now that it is known what became of its writes: only what it says is used.
    fn plan_again(&mut self, failures: Vec<WriteFailure>, previous: Option<&K::Status>, controller: &Controller<K>) {
        controller.kind.wrote(&mut self.observation, WriteOutcome { tried: true, failures });
        let now = Timestamp::now();
        let intent = controller.kind.plan(&self.object, &self.observation, previous, now);
        (self.intent.status, self.intent.other_statuses) = (intent.status, intent.other_statuses);
    }
}

impl<K: Kind> Controller<K> {
    /// Failures in a row make the next attempt wait longer.
    fn conclude(&self, id: &ObjectId, result: &Result<Done, Error>) {
        let error = match result {
            Ok(_) | Err(Error::Publish(_)) => {
                self.states.change_known(id, |state| state.work.succeeded());
                return;
            }
            Err(error) => error,
        };
        let delay = self.states.change(id, |state| state.work.failed());
        let (kind, name, namespace) = (&*id.key.kind, &id.key.name, &id.key.namespace);
        tracing::warn!(kind, name, namespace, %error, ?delay, "trying again later");
    }

    /// The status as this process wrote it last, if it did: nobody else's word counts, whatever is stored by now.
    pub fn published_status(&self, id: &ObjectId) -> Option<K::Status> {
        self.states.of(id).published.map(|published| published.status)
    }

    /// The status that is stored. The one in the cache may be older than the one this process wrote last.
    fn stored_status<O>(&self, object: &O, cached: Option<&K::Status>) -> Option<K::Status>
    where
        O: Resource<DynamicType = ()>,
    {
        let number = |text: &str| text.parse::<u128>().unwrap_or_default();
        let known = number(object.resource_version().as_deref().unwrap_or_default());
        let written = self.states.of(&ObjectId::of(object)).published;
        let written = written.filter(|written| number(&written.version) >= known);
        written.map(|written| written.status).or_else(|| cached.cloned())
    }
}

/// Stored under another schema: nothing can be done but to say so.
pub fn report_unreadable<K: Kind>(object: &Arc<Stored<K::Object>>, controller: &Arc<Controller<K>>) {
    let id = ObjectId::of(&**object);
    if !controller.api_work.begin(&id, controller.api_work.ticket(&id)) {
        return;
    }
    let (controller, object) = (controller.clone(), object.clone());
    let tasks = controller.api_work.tasks.clone();
    tasks.spawn(async move {
        let Err(found) = &object.0 else { return };
        let unreadable = Unreadable {
            id: &id,
            generation: found.metadata.generation,
            deleting: found.metadata.deletion_timestamp.is_some(),
            error: &found.error,
        };
        let previous = controller.published_status(&id).or_else(|| found.status.clone());
        let status = controller.kind.unreadable(&unreadable, previous.as_ref(), Timestamp::now());
        let stored = controller.stored_status(&*object, found.status.as_ref());
        let before = Before { previous: previous.as_ref(), stored: stored.as_ref() };
        if let Err(error) = publish(&id, status, before, &controller).await {
            let (kind, name, namespace) = (&*id.key.kind, &id.key.name, &id.key.namespace);
            tracing::warn!(kind, name, namespace, %error, "an unreadable object was not reported");
        }
        controller.api_work.end(&id);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ObjectId {
        let key = ObjectKey::cluster("test", name);
        ObjectId { api_version: "valkey.io/v1alpha1".into(), key, uid: name.into() }
    }

    #[test]
    fn a_plan_from_before_the_last_writes_is_not_carried_out() {
        let (running, a, b) = (Running::default(), object("a"), object("b"));
        let first = running.ticket(&a);
        assert!(running.begin(&a, first) && !running.begin(&a, first), "one at a time");
        let during = running.ticket(&a);
        assert!(running.begin(&b, running.ticket(&b)), "objects do not wait for each other");
        running.end(&a);
        assert!(!running.begin(&a, during), "it was observed while the writes were under way");
        assert!(running.begin(&a, running.ticket(&a)));
    }

    #[test]
    fn objects_that_are_gone_are_forgotten() {
        let (running, gone) = (Running::default(), object("gone"));
        assert!(running.begin(&gone, running.ticket(&gone)));
        running.end(&gone);
        running.end_object(&gone.key);
        assert!(running.objects().is_empty());
    }
}
