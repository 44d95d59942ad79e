//! How a start was decided, in the words of the contract and of `/status`. Pure.

use super::disk_facts::DiskFacts;
use crate::role::contract_role;
use link::contract::Boot;
use serde::{Serializer, ser::SerializeMap};
use sidecar_rules::boot::{Data, Decision};
use topology::NodeId;

/// `better`: a replica that has what this node would not load.
pub(super) fn boot(facts: &DiskFacts, decision: &Decision, better: Option<&NodeId>) -> Boot {
    let (waiting, reason) = match decision {
        Decision::Open { reason, .. } => (false, reason.clone()),
        Decision::Wait { reason } => (true, reason.clone()),
    };
    let node = facts.past.node();
    Boot {
        waiting,
        reason,
        last_node_id: node.map(|node| node.id.to_string()).unwrap_or_default(),
        last_role: contract_role(node.map(|node| node.role)).into(),
        has_data: facts.data != Data::Nothing,
        clean_stop: facts.clean_stop,
        owned_slots: node.is_some_and(|node| !node.slots.is_empty()),
        known_replicas: node
            .into_iter()
            .flat_map(|node| node.copies())
            .filter(|peer| !peer.unlisted)
            .map(|peer| peer.id.to_string())
            .collect(),
        journal: facts.data == Data::Journal,
        better_copy: better.filter(|_| waiting).map(ToString::to_string).unwrap_or_default(),
    }
}

pub fn serialize<S: Serializer>(boot: &Option<Boot>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(boot) = boot else { return serializer.serialize_none() };
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("waiting", &boot.waiting)?;
    map.serialize_entry("reason", &boot.reason)?;
    map.serialize_entry("lastNodeId", &boot.last_node_id)?;
    map.serialize_entry("hasData", &boot.has_data)?;
    map.serialize_entry("ownedSlots", &boot.owned_slots)?;
    map.serialize_entry("cleanStop", &boot.clean_stop)?;
    map.end()
}
