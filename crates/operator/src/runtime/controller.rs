//! Runs one kind in one scope: its watch, its queue, one pass after the other for each of its objects.

use super::api_work::{ApiWork, Running};
use super::kind::{Kind, Known};
use super::memories::Memories;
use super::object::{ObjectId, ObjectKey};
use super::scope::Scope;
use super::state::State;
use super::watch;
use crate::stop::Stop;
use api::stored::Stored;
use futures::channel::mpsc::UnboundedReceiver;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::core::object::HasStatus;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::{Resource, ResourceExt};
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

/// Passes over different objects at the same time.
const CONCURRENCY: u16 = 16;

/// A kind, whichever it is.
pub trait AnyKind: Send {
    /// Begins to watch.
    fn start(self: Box<Self>, scope: &Arc<Scope>) -> Box<dyn AnyController>;
}

/// A kind that is being watched.
pub trait AnyController: Send + Sync {
    fn kind(&self) -> &'static str;
    /// Returns when its objects have been listed once.
    fn listed(&self) -> BoxFuture<'_, ()>;
    fn work(self: Box<Self>, stop: Stop) -> BoxFuture<'static, ()>;
}

/// What `run` lists the kinds with.
pub fn register<K: Kind>(kind: K) -> Box<dyn AnyKind> {
    Box::new(Registration(Arc::new(kind)))
}

struct Registration<K>(Arc<K>);

/// What all passes over objects of one kind share.
pub struct Controller<K: Kind> {
    pub kind: Arc<K>,
    pub scope: Arc<Scope>,
    pub states: Memories<State<K::Status>>,
    pub api_work: Running,
}

struct Watching<K: Kind> {
    controller: Arc<Controller<K>>,
    objects: Store<Stored<K::Object>>,
    requests: UnboundedReceiver<ObjectKey>,
    watch: tokio::task::AbortHandle,
}

impl<K: Kind> AnyKind for Registration<K> {
    fn start(self: Box<Self>, scope: &Arc<Scope>) -> Box<dyn AnyController> {
        let (objects, writer) = store();
        let requests = scope.queues.open(&K::Object::kind(&()));
        let controller = Arc::new(Controller {
            kind: self.0,
            scope: scope.clone(),
            states: Memories::default(),
            api_work: Running::default(),
        });
        controller.kind.start(scope, objects.clone());
        let watch = tokio::spawn(watch::objects(controller.clone(), writer)).abort_handle();
        Box::new(Watching { controller, objects, requests, watch })
    }
}

impl<K: Kind> AnyController for Watching<K> {
    fn kind(&self) -> &'static str {
        K::KIND
    }

    fn listed(&self) -> BoxFuture<'_, ()> {
        // An error means that the writer is gone, and with it the process.
        self.objects.wait_until_ready().map(drop).boxed()
    }

    fn work(self: Box<Self>, stop: Stop) -> BoxFuture<'static, ()> {
        (*self).work(stop).boxed()
    }
}

impl<K: Kind> Watching<K> {
    async fn work(self, stop: Stop) {
        let Watching { controller, objects, requests, watch } = self;
        let requests = requests.map(|key| ObjectRef::<Stored<K::Object>>::new(&key.name).within(&key.namespace));
        let queue = requests.map(Ok::<_, Infallible>).take_until(stop.wished().boxed());
        let config = Config::default().concurrency(CONCURRENCY);
        let (known, forgetting) = (objects.clone(), controller.clone());
        let pass = |object, controller| reconcile::<K>(object, controller).boxed();
        applier(pass, never, controller.clone(), objects, queue, config)
            .for_each(move |_| {
                forgetting.forget_strangers(&known);
                futures::future::ready(())
            })
            .await;
        controller.api_work.finish().await;
        watch.abort();
    }
}

impl<K: Kind> Controller<K> {
    /// An object is gone, and with it what was remembered of it.
    pub fn end(&self, key: &ObjectKey) {
        self.states.end(key);
        self.api_work.end_object(key);
        self.scope.references.end(key);
        self.kind.end(key);
    }

    fn forget_strangers(&self, known: &Store<Stored<K::Object>>) {
        if self.states.count() <= known.len() {
            return;
        }
        let objects = known.state();
        let uids: Vec<String> = objects.iter().filter_map(|object| object.uid()).collect();
        let known: HashSet<ObjectKey> = objects.iter().map(|object| ObjectKey::of(&**object)).collect();
        self.states.strangers(&known).iter().for_each(|key| self.end(key));
        self.kind.keep(&known, &uids, &self.scope);
    }

    async fn pass(self: &Arc<Self>, object: &K::Object) -> Action {
        let id = ObjectId::of(object);
        let ticket = self.api_work.ticket(&id);
        let references = self.scope.references.follow(&id.key, &self.kind.references(object));
        let known = Known { id: &id, state: &self.states.of(&id), references: &references, scope: &self.scope };
        let observation = self.kind.observe(object, &known).await;
        let previous = self.published_status(&id).or_else(|| object.status().cloned());
        let intent = self.kind.plan(object, &observation, previous.as_ref(), Timestamp::now());
        self.states.change(&id, |state| state.keep_events(&intent.events));
        self.kind.send(&id, &observation, &intent);
        let requeue_after = intent.requeue_after;
        let due = self.states.change(&id, |state| state.next_attempt()).unwrap_or(requeue_after);
        ApiWork { id, ticket, object: object.clone(), observation, intent }.start(self);
        Action::requeue(requeue_after.min(due))
    }
}

async fn reconcile<K: Kind>(
    object: Arc<Stored<K::Object>>,
    controller: Arc<Controller<K>>,
) -> Result<Action, Infallible> {
    Ok(match &object.0 {
        Ok(object) => controller.pass(object).await,
        Err(_) => {
            super::api_work::report_unreadable(&object, &controller);
            Action::requeue(super::IN_TROUBLE)
        }
    })
}

/// A pass does not fail: what goes wrong at the API server is tried again by whoever asked it.
fn never<K: Kind>(_: Arc<Stored<K::Object>>, error: &Infallible, _: Arc<Controller<K>>) -> Action {
    match *error {}
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
