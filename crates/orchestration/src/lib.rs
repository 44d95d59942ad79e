//! What to tell the nodes of a Valkey cluster next, and what to say about it: form, heal, fail over. Pure: no IO, no clock.
//! The operator calls `decide` after observing, checks the result with `sane`, sends the commands and publishes the rest.

mod action;
mod candidates;
mod deaths;
mod decide;
mod decision;
mod failover;
mod findings;
mod form;
mod gates;
mod ghosts;
mod heal;
mod join;
mod limits;
mod mesh;
mod observation;
mod picture;
mod proposal;
mod record;
mod repair;
mod sane;
mod shards;
mod views;

pub use action::{Action, FailoverMode, Peer, PodCommand, Start};
pub use decide::decide;
pub use decision::{Decision, Event, Finding, FindingKind, Reason};
pub use observation::{Answered, Boot, Following, NodeFacts, Observation, Outcome, PodSeen, Valkey, Wanted};
pub use record::{Answers, Kind, NodeWord, Orchestration, Queued, ShardNode, ShardStatus, Step, Trouble};
pub use sane::{Violation, sane};
