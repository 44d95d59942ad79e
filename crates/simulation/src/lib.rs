//! A Valkey cluster in memory: nodes that gossip, vote and replicate, pods that die, an operator that can be killed between any
//! two steps and loses answers. For tests only: simplified, and honest where it matters (what spreads when, who may vote, what a
//! resynchronisation overwrites). No IO; time is a counter, chance is seeded.
//! `Stage::new` plays the nodes alone: their pods are simply there. `Stage::whole` plays the whole plan from an empty namespace on,
//! with an API server and a StatefulSet controller.

mod api_server;
mod certificates;
mod command;
mod election;
mod gossip;
mod heartbeat;
mod kubernetes;
mod line;
mod node;
mod operator;
mod oracle;
mod pod;
mod replication;
mod scaling;
mod sidecar;
mod stage;
mod user;
mod whole;
mod world;

pub use api_server::{ApiServer, WriteFaults};
pub use kubernetes::Kubernetes;
pub use line::{Faults, Line};
pub use node::{Node, Peer};
pub use operator::Operator;
pub use pod::{Disk, Ending, Pod, Process, Waiting};
pub use stage::Stage;
pub use whole::Whole;
pub use world::{Setup, TICK, World};
