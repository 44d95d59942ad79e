//! Meet: this node gets to know the nodes at these addresses, and they its slots.

use super::Objection;
use std::net::SocketAddr;
use topology::{ClusterNode, ClusterNodes, NodeId};

/// The node at this address is known and connected.
pub fn knows(nodes: &ClusterNodes, address: SocketAddr) -> bool {
    let mut there = nodes.0.iter().filter(|node| node.address == Some(address));
    there.any(|node| node.connected && !node.has_flag("handshake") && !node.has_flag("noaddr"))
}

/// Nodes that the other side does not know and that may be gone without a majority to say so. Whoever answers at the host name of
/// one tells.
pub fn suspects<'a>(ours: &'a ClusterNodes, theirs: &'a ClusterNodes) -> Vec<&'a ClusterNode> {
    let of = |side: &'a ClusterNodes, other: &'a ClusterNodes| {
        side.0.iter().filter(|node| node.has_flag("fail?") && !node.slots.is_empty() && other.find(&node.id).is_none())
    };
    of(ours, theirs).chain(of(theirs, ours)).collect()
}

/// The pod of this name runs another node now, and a name has one pod. `there`: what the node at its host name sees.
pub fn is_replaced(node: &ClusterNode, there: &ClusterNodes) -> bool {
    let now = there.myself().filter(|now| now.hostname.is_some() && now.hostname == node.hostname);
    now.is_some_and(|now| now.id != node.id)
}

/// `expected`: who has to be at the address, when that is known; `theirs`: what the node there sees, if it answers; `replaced`:
/// which of the suspects are.
/// Two clusters that both serve a slot must never meet: the one with the lower epoch would lose its data.
pub fn check(
    ours: &ClusterNodes,
    address: SocketAddr,
    expected: Option<&NodeId>,
    theirs: Option<&ClusterNodes>,
    replaced: &[NodeId],
) -> Result<(), Objection> {
    let theirs = theirs.ok_or_else(|| Objection::NotNow(format!("{address} gives no answer; nothing was done")))?;
    // An address is reused by other pods, also by those of other clusters; an empty node of those would be met unnoticed.
    if let Some(found) = theirs.myself().filter(|found| expected.is_some_and(|expected| found.id != *expected)) {
        return Err(Objection::NotNow(format!("{} is at {address} now; nothing was done", found.id)));
    }
    match conflict(ours, theirs, replaced) {
        Some(slot) => Err(Objection::unsafe_because(format!(
            "{address} belongs to another cluster: slot {slot} is served by nodes that do not know each other"
        ))),
        None => Ok(()),
    }
}

/// A node that its own cluster has declared dead serves nothing: its slots may have been given to a new one. When most primaries
/// are lost at once nobody can declare them dead; then it is enough that those left miss it and its pod runs another node.
fn conflict(ours: &ClusterNodes, theirs: &ClusterNodes, replaced: &[NodeId]) -> Option<u16> {
    let gone = |node: &ClusterNode| node.has_flag("fail") || node.has_flag("fail?") && replaced.contains(&node.id);
    let strange = |node: &ClusterNode, to: &ClusterNodes| to.find(&node.id).is_none() && !gone(node);
    let strangers = theirs.0.iter().filter(|node| strange(node, ours));
    let mut slots = strangers.flat_map(|node| node.slots.iter());
    slots.find(|slot| ours.owner_of(*slot).is_some_and(|owner| strange(owner, theirs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(lines: &[&str]) -> ClusterNodes {
        ClusterNodes::parse(&lines.join("\n")).unwrap()
    }

    #[test]
    fn a_slot_served_by_strangers_on_both_sides_is_a_conflict() {
        let ours = view(&["a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-9"]);
        let foreign = view(&["x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 5-20"]);
        let fresh = view(&["x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected"]);
        let beside = view(&["x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 10-20"]);
        let old_friend = view(&[
            "x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 5-20",
            "a 10.0.0.1:6379@16379 master - 0 0 1 connected",
        ]);
        let replaced = view(&[
            "y 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 10-20",
            "gone 10.0.0.8:6379@16379 master,fail - 0 0 1 disconnected 0-9",
        ]);
        let suspected = view(&[
            "y 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 10-20",
            "gone 10.0.0.8:6379@16379 master,fail? - 0 0 1 disconnected 0-9",
        ]);
        let views = [&foreign, &fresh, &beside, &old_friend, &replaced, &suspected];
        assert_eq!(views.map(|theirs| conflict(&ours, theirs, &[])), [Some(5), None, None, None, None, Some(0)]);
    }

    #[test]
    fn a_suspected_node_is_no_conflict_once_its_pod_runs_another() {
        let ours = view(&["a 10.0.0.1:6379@16379,p-0.p.ns.svc myself,master - 0 0 7 connected 0-9"]);
        let gone = "gone 10.0.0.8:6379@16379,p-1.p.ns.svc master,FLAG - 0 0 1 disconnected 0-9";
        let with = |flag: &str| {
            let line = gone.replace("FLAG", flag);
            view(&["y 10.0.0.9:6379@16379,p-2.p.ns.svc myself,master - 0 0 1 connected 10-20", &line])
        };
        let (suspected, trusted) = (with("fail?"), with("nofailover"));
        let suspects = suspects(&ours, &suspected);
        assert_eq!(suspects.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["gone"]);
        let successor = view(&["b 10.0.0.5:6379@16379,p-1.p.ns.svc myself,master - 0 0 0 connected"]);
        let elsewhere = view(&["b 10.0.0.5:6379@16379,p-1.q.ns.svc myself,master - 0 0 0 connected"]);
        let itself = view(&["gone 10.0.0.5:6379@16379,p-1.p.ns.svc myself,master - 0 0 0 connected"]);
        assert_eq!(
            [&successor, &elsewhere, &itself].map(|there| is_replaced(suspects[0], there)),
            [true, false, false]
        );
        assert_eq!(conflict(&ours, &suspected, &["gone".into()]), None);
        assert_eq!(conflict(&ours, &suspected, &[]), Some(0));
        assert_eq!(conflict(&ours, &trusted, &["gone".into()]), Some(0));
    }

    #[test]
    fn only_the_node_that_is_expected_at_an_address_is_met() {
        let ours = view(&["a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-9"]);
        let theirs = view(&["x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected"]);
        let at = "10.0.0.9:6379".parse().unwrap();
        assert_eq!(check(&ours, at, Some(&"x".into()), Some(&theirs), &[]), Ok(()));
        assert_eq!(check(&ours, at, None, Some(&theirs), &[]), Ok(()));
        assert!(matches!(check(&ours, at, Some(&"y".into()), Some(&theirs), &[]), Err(Objection::NotNow(_))));
        assert!(matches!(check(&ours, at, Some(&"x".into()), None, &[]), Err(Objection::NotNow(_))));
        let foreign = view(&["x 10.0.0.9:6379@16379 myself,master - 0 0 1 connected 5"]);
        assert!(matches!(check(&ours, at, Some(&"x".into()), Some(&foreign), &[]), Err(Objection::Unsafe(_))));
    }

    #[test]
    fn a_node_is_known_once_it_is_connected_and_its_handshake_is_over() {
        let at = "10.0.0.9:6379".parse().unwrap();
        for (flags, link, expected) in
            [("master", "connected", true), ("master", "disconnected", false), ("handshake", "connected", false)]
        {
            let nodes = view(&[&format!("x 10.0.0.9:6379@16379 {flags} - 0 0 1 {link}")]);
            assert_eq!(knows(&nodes, at), expected, "{flags} {link}");
        }
    }
}
