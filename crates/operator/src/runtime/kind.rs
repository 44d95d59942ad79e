//! What a kind of ours has to say of itself; the runtime does the rest.

use super::act;
use super::object::{ObjectId, ObjectKey};
use super::scope::Scope;
use super::state::State;
use api::stored::Stored;
use futures::stream::BoxStream;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ManagedFieldsEntry, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::DynamicObject;
use kube::core::object::HasStatus;
use kube::runtime::reflector::Store;
use planner::{Notice, OtherStatus, ReferenceKey, References, Step, WriteOutcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::fmt::Debug;
use std::time::Duration;

pub trait Kind: Send + Sync + Sized + 'static {
    type Object: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + HasStatus<Status = Self::Status>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static;
    /// Everything that was seen of one object.
    type Observation: Send + Sync + 'static;
    /// What its plan says beside steps and status; for `send`.
    type Details: Send + Sync + 'static;
    type Status: Serialize + DeserializeOwned + Clone + Debug + PartialEq + Send + Sync + 'static;

    /// For logs and metrics: what it is called, and its status as something that is written.
    const KIND: &'static str;
    const STATUS: &'static str;

    fn conditions(status: &Self::Status) -> &[Condition];
    fn observed_generation(status: &Self::Status) -> Option<i64>;

    /// Whether they differ only in how far something has come: that is not written each time.
    fn is_progress(_before: &Self::Status, _after: &Self::Status) -> bool {
        false
    }

    /// What of `managedFields` is kept: they are large, and mostly nobody reads them.
    fn managed_fields(_metadata: &ObjectMeta) -> Vec<ManagedFieldsEntry> {
        Vec::new()
    }

    /// What the spec refers to: watched as long as it does. A change there leads to a pass here.
    fn references(&self, _object: &Self::Object) -> Vec<ReferenceKey> {
        Vec::new()
    }

    fn observe(
        &self,
        object: &Self::Object,
        known: &Known<'_, Self::Status>,
    ) -> impl Future<Output = Self::Observation> + Send;

    /// Pure: what is to be done and said.
    fn plan(
        &self,
        object: &Self::Object,
        observation: &Self::Observation,
        previous: Option<&Self::Status>,
        now: Timestamp,
    ) -> Intent<Self::Status, Self::Details>;

    /// Adds what became of the writes to what was seen, for what is said of them.
    fn wrote(&self, observation: &mut Self::Observation, outcome: WriteOutcome);

    /// What is said of an object whose spec cannot be read.
    fn unreadable(&self, object: &Unreadable<'_>, previous: Option<&Self::Status>, now: Timestamp) -> Self::Status;

    /// Done at once and not at the API server: commands to nodes.
    fn send(&self, _id: &ObjectId, _observation: &Self::Observation, _intent: &Intent<Self::Status, Self::Details>) {}

    /// Done at the API server before the writes: what no watch shows is looked up. True when the plan is outdated by that; nothing of
    /// it is then written, and the next pass follows at once.
    fn prepare(
        &self,
        _object: &Self::Object,
        _observation: &Self::Observation,
        _scope: &Scope,
    ) -> impl Future<Output = bool> + Send {
        async { false }
    }

    /// A step that only this kind knows.
    fn carry_out(&self, step: &Step, _object: &Self::Object) -> impl Future<Output = Result<(), act::Error>> + Send {
        let detail = format!("this kind does not know how to {step}");
        async { Err(act::Error::Own { detail, terminating: false }) }
    }

    /// The status of another object that goes with this one was written.
    fn published(&self, _id: &ObjectId, _object: &DynamicObject) {}

    /// Called once, with all objects of the kind in this scope.
    fn start(&self, _scope: &Scope, _objects: Store<Stored<Self::Object>>) {}

    /// Further reasons for passes, beside changes of the objects, of what they own and of what they refer to.
    fn wakeups(&self, _scope: &Scope, _objects: Store<Stored<Self::Object>>) -> Vec<BoxStream<'static, ObjectKey>> {
        Vec::new()
    }

    /// Called whenever there may be more or fewer objects of the kind in this scope.
    fn watched(&self, _scope: &Scope, _count: usize) {}

    /// Forgets what is remembered of an object that is gone.
    fn end(&self, _key: &ObjectKey) {}

    /// Forgets all in this scope that are not among these.
    fn keep(&self, _known: &HashSet<ObjectKey>, _uids: &[String], _scope: &Scope) {}
}

/// What the runtime knows at the beginning of a pass.
pub struct Known<'a, S> {
    pub id: &'a ObjectId,
    pub state: &'a State<S>,
    /// What the spec refers to.
    pub references: &'a References,
    pub scope: &'a Scope,
}

/// A plan for one object.
#[derive(Clone, Debug)]
pub struct Intent<S, D = ()> {
    /// Object writes and node commands, in their order.
    pub steps: Vec<Step>,
    pub status: S,
    /// Those of other objects of ours that go with it, where they are to be written.
    pub other_statuses: Vec<OtherStatus>,
    /// Each is published once, also if another pass comes first.
    pub events: Vec<Notice>,
    /// It is being deleted: nothing about it is news.
    pub silent: bool,
    /// When to plan again if nothing happens before.
    pub requeue_after: Duration,
    pub details: D,
}

/// Stored under another schema.
pub struct Unreadable<'a> {
    pub id: &'a ObjectId,
    pub generation: Option<i64>,
    pub deleting: bool,
    pub error: &'a str,
}
