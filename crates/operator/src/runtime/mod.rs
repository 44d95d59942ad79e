//! What every kind of ours needs, whatever it is: watches with a cache, one pass after the other for each object, writes in the
//! background, status and Events. A kind says what it sees and what it plans ([`Kind`]); it is added by a line in `run`.
//!
//! One scope ([`Scope`]) is a namespace, or all of them.

mod act;
mod api_work;
mod backoff;
mod cache;
mod controller;
mod entry;
mod kind;
mod memories;
mod object;
mod plain;
mod publish;
mod references;
mod resources;
mod restores;
mod scope;
mod state;
mod status;
mod watch;

pub use act::{Error as ActError, is_namespace_terminating};
pub use api_work::{IN_TROUBLE, Ticket};
pub use cache::{Cache, Entry, ObjectName, Payload, Snapshot, Source};
pub use controller::{AnyKind, register};
pub use entry::{cluster_of_pod, owner_of};
pub use kind::{Intent, Kind, Known, Unreadable};
pub use memories::Memories;
pub use object::{ObjectId, ObjectKey};
pub use planner::{Reference, ReferenceKey};
pub use references::WatchedReferences;
pub use resources::{children, claims, own_kind, plain, pods, scoped};
pub use restores::watch_through_restores;
pub use scope::{Queues, Scope, ScopeSettings};
pub use state::State;
pub use status::StatusWrite;
pub use watch::ours;
