//! What a peer answered when it was asked about this node. Pure.

use super::past::PastNode;
use std::time::SystemTime;
use topology::{ClusterNode, ClusterNodes};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerAnswer {
    /// Who serves this node's slots now, when that is decided.
    pub successor: Option<Successor>,
    /// What a replica of this node holds, or one that still takes its slots for its own; `None` from any other node, and while it loads.
    pub copy: Option<Copy>,
    /// It is such a replica and loads: what it holds it cannot say yet.
    pub loads: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    pub name: String,
    /// Its epoch is above this node's, so that this node gives way by itself. Epochs can collide when a node raised its own
    /// and ended before the others heard of it.
    pub outranks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    pub keys: u64,
    pub followed: Followed,
    /// It has less than this node was seen to have, however long it followed.
    pub short: bool,
}

/// How far a replica followed this node in its present run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// It has been restarted since, and has only what its own disk had.
    Never,
    /// Its link was lost then, by this node's clock: it does not have what this node wrote later.
    Until(SystemTime),
    /// Its link is up.
    Still,
}

/// What the peer says of its own data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyState {
    pub loading: bool,
    pub keys: u64,
    pub link_up: bool,
    /// When the link to its primary was lost, by this node's clock; `None` when it had none in this run.
    pub link_lost: Option<SystemTime>,
    /// Its offset is below what this node had when it was last seen.
    pub short: bool,
}

impl PeerAnswer {
    pub fn of(past: &PastNode, view: &ClusterNodes, state: CopyState) -> Self {
        let is_copy = view.myself().is_some_and(|peer| is_copy(past, peer));
        let copy = (is_copy && !state.loading).then(|| Copy {
            keys: state.keys,
            followed: followed(state),
            short: state.short,
        });
        Self { successor: successor(past, view), copy, loads: is_copy && state.loading }
    }
}

/// It follows this node, or has not heard yet that its slots went to this node.
fn is_copy(past: &PastNode, peer: &ClusterNode) -> bool {
    let claims = || past.slots.iter().any(|slot| peer.slots.contains(slot));
    peer.primary.as_ref() == Some(&past.id) || claims()
}

/// Another node serves every slot of this one, under a later vote. A view that is merely old shows owners of lower epochs;
/// but a node that was a replica of this one to the end and now serves the slots itself has won a vote since.
fn successor(past: &PastNode, view: &ClusterNodes) -> Option<Successor> {
    let owners = past.slots.iter().map(|slot| view.owner_of(slot));
    let owners =
        owners.map(|owner| owner.filter(|owner| owner.id != past.id)).collect::<Option<Vec<&ClusterNode>>>()?;
    let outranks = owners.iter().all(|owner| owner.config_epoch > past.config_epoch);
    let promoted =
        |owner: &ClusterNode| owner.has_flag("myself") && past.replicas().any(|replica| replica.id == owner.id);
    let last = owners.last()?;
    let name = last.hostname.clone().unwrap_or_else(|| last.id.to_string());
    (outranks || owners.iter().all(|owner| promoted(owner))).then_some(Successor { name, outranks })
}

fn followed(state: CopyState) -> Followed {
    match state.link_lost {
        _ if state.link_up => Followed::Still,
        Some(lost) => Followed::Until(lost),
        None => Followed::Never,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::boot::Peer;
    use topology::Role;

    pub(in super::super) fn past() -> PastNode {
        let slots = "0-100".parse().unwrap();
        PastNode { id: "me".into(), role: Role::Primary, slots, config_epoch: 7, peers: Vec::new() }
    }

    fn successor_in(lines: &[&str]) -> Option<Successor> {
        let peer = Peer {
            id: "r1".into(),
            address: None,
            hostname: None,
            replica_of_mine: true,
            former_primary: false,
            unlisted: false,
        };
        let past = PastNode { peers: vec![peer], ..past() };
        successor(&past, &ClusterNodes::parse(&lines.join("\n")).unwrap())
    }

    fn named(name: &str, outranks: bool) -> Option<Successor> {
        Some(Successor { name: name.into(), outranks })
    }

    #[test]
    fn a_later_owner_of_every_slot_is_the_successor() {
        let view = [
            "r1 10.0.0.2:6379@16379,p-1 myself,master - 0 1 8 connected 0-100",
            "me 10.0.0.1:6379@16379 slave r1 0 1 8 connected",
        ];
        assert_eq!(successor_in(&view), named("p-1", true));
        assert_eq!(successor_in(&view[..1]), named("p-1", true), "also when this node was forgotten");
    }

    #[test]
    fn a_replica_that_says_itself_that_it_serves_the_slots_is_the_successor_whatever_its_epoch() {
        for epoch in [3, 7] {
            let view = format!("r1 10.0.0.2:6379@16379,p-1 myself,master - 0 1 {epoch} connected 0-100");
            assert_eq!(successor_in(&[&view]), named("p-1", false));
        }
    }

    #[test]
    fn an_old_view_a_part_of_the_slots_or_slots_of_nobody_prove_nothing() {
        assert_eq!(successor_in(&["r1 10.0.0.2:6379@16379 master - 0 1 3 connected 0-100"]), None);
        assert_eq!(successor_in(&["o1 10.0.0.3:6379@16379 myself,master - 0 1 7 connected 0-100"]), None);
        let some = ["o1 10.0.0.2:6379@16379 myself,master - 0 1 8 connected 0-50"];
        assert_eq!(successor_in(&[some[0], "me 10.0.0.1:6379@16379 master,fail - 0 1 7 connected 51-100"]), None);
        assert_eq!(successor_in(&some), None);
    }

    #[test]
    fn only_a_replica_of_this_node_that_has_loaded_tells_of_a_copy() {
        let lost = SystemTime::UNIX_EPOCH;
        let down = CopyState { loading: false, keys: 5, link_up: false, link_lost: Some(lost), short: false };
        let answer = |primary: &str, state: CopyState| {
            let view = format!("r1 10.0.0.2:6379@16379 myself,slave {primary} 0 1 8 connected");
            PeerAnswer::of(&past(), &ClusterNodes::parse(&view).unwrap(), state)
        };
        let of = |primary: &str, state: CopyState| answer(primary, state).copy;
        let copy = |followed| Some(Copy { keys: 5, followed, short: false });
        assert_eq!(of("me", down), copy(Followed::Until(lost)));
        assert_eq!(of("me", CopyState { link_lost: None, ..down }), copy(Followed::Never));
        assert_eq!(of("me", CopyState { link_up: true, ..down }), copy(Followed::Still));
        let loading = CopyState { loading: true, ..down };
        assert_eq!(of("me", loading), None);
        assert_eq!(["me", "other"].map(|primary| answer(primary, loading).loads), [true, false]);
        assert_eq!(of("other", down), None);
    }
}
