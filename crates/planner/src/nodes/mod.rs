//! What to tell the nodes of a Valkey cluster next, and what to say about it: form, heal, fail over, scale. Pure: no IO, no clock.
//! The operator calls `decide` after observing, checks the result with `check_commands`, sends the commands and publishes the rest.

mod action;
mod announcement;
mod available;
mod candidates;
mod cluster_model;
mod decide;
mod decision;
mod departed;
mod failover;
mod findings;
mod form;
mod gates;
mod heal;
mod join;
mod limits;
mod mesh;
mod node_failures;
mod observation;
mod open_slots;
mod primaries;
mod proposal;
mod record;
mod repair;
mod scale;
mod shards;
pub mod status;
mod views;

pub use action::{Action, FailoverMode, Peer, PodCommand, Start};
pub use decide::{begin_nothing, decide, only_watch};
pub use decision::{Decision, Event, FindingKind, NodeFinding};
pub use observation::{Answered, Boot, Following, NodeFacts, NodeObservation, Outcome, PodObservation, Target, Valkey};
pub use record::{Answers, NodeState, Orchestration, OrchestrationKind, Queued, Setback, Shard, ShardNode, Stage};
pub use status::NodeRecord;
