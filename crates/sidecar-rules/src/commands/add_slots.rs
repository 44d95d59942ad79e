//! AddSlots: this node serves slots that no node serves.

use super::{Objection, myself};
use topology::{ClusterNodes, SlotSet};

/// Those of the wanted slots that this node does not serve yet. A slot of another node is never taken, dead or not: its data is
/// there.
pub fn missing(nodes: &ClusterNodes, wanted: &SlotSet) -> Result<SlotSet, Objection> {
    if wanted.is_empty() {
        return Err(Objection::invalid("ranges is empty: name at least one slot"));
    }
    let myself = myself(nodes)?;
    if !myself.is_primary() {
        return Err(Objection::unsafe_because("this node is a replica: only a primary serves slots"));
    }
    let others = nodes.0.iter().filter(|node| node.id != myself.id);
    let taken = others.filter_map(|node| Some((wanted.intersection(&node.slots).iter().next()?, &node.id)));
    match taken.min() {
        Some((slot, owner)) => Err(Objection::unsafe_because(format!("slot {slot} is served by {owner}"))),
        None => Ok(wanted.difference(&myself.slots)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 3-5\n\
        b 10.0.0.2:6379@16379 master,fail - 0 0 1 connected 100\n";

    fn asked(nodes: &str, slots: &str) -> Result<String, Objection> {
        missing(&ClusterNodes::parse(nodes).unwrap(), &slots.parse().unwrap()).map(|slots| slots.to_string())
    }

    #[test]
    fn what_is_mine_is_left_out_and_what_is_anothers_stops_it() {
        assert_eq!(asked(NODES, "0-9"), Ok("0-2,6-9".into()));
        assert_eq!(asked(NODES, "3-5"), Ok(String::new()));
        assert_eq!(asked(NODES, "90-110"), Err(Objection::unsafe_because("slot 100 is served by b")));
    }

    #[test]
    fn a_replica_takes_no_slots_and_nobody_takes_none() {
        let replica = NODES.replace("myself,master -", "myself,slave b");
        assert!(matches!(asked(&replica, "0-9"), Err(Objection::Unsafe(_))));
        assert!(matches!(asked(NODES, ""), Err(Objection::Invalid(_))));
    }
}
