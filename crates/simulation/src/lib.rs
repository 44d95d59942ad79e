//! A Valkey cluster in memory: nodes that gossip, vote and replicate, pods that die, an operator that can be killed between any
//! two steps and loses answers. For tests only: simplified, and honest where it matters (what spreads when, who may vote, what a
//! resynchronisation overwrites). No IO; time is a counter, chance is seeded.

mod command;
mod election;
mod gossip;
mod node;
mod operator;
mod oracle;
mod pod;
mod replication;
mod sidecar;
mod stage;
mod user;
mod world;

pub use node::{Node, Peer};
pub use operator::{Faults, Operator};
pub use pod::{Disk, Pod, Process, Waiting};
pub use stage::Stage;
pub use world::{Setup, TICK, World};
