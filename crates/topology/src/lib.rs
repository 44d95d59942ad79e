//! Slots, nodes and views of a Valkey cluster, how views compare, and where primaries and replicas belong.
//! Pure: no IO, no clock. `orchestration` decides on it; the operator fills it from what the sidecars say, the sidecar from what its
//! Valkey answers.

mod balance;
mod cluster_nodes;
mod identity;
mod map;
mod placement;
mod position;
mod slots;
mod view;

pub use balance::{Move, even_out};
pub use cluster_nodes::{ClusterNode, ClusterNodes, SlotMove};
pub use identity::{NodeId, PodName, PodUid, ShardId};
pub use map::{ClusterMap, Conflict};
pub use placement::{Location, ShardPlan, Site, place, shard_for, spread};
pub use position::Position;
pub use slots::{SLOTS, SlotRange, SlotSet, SlotsError, even};
pub use view::{NodeView, Role, ViewSummary, ViewedNode};
