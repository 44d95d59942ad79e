//! From the contract's words to those of the planner and back. Pure. What cannot be understood is left out: a node that
//! answers nonsense counts as not heard.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use link::contract::{
    self, AddSlots, ClusterView, Condition, Failover, Forget, FullView, Leave, Meet, MigrateSlots, NodeAddress,
    NodeState, OpenGate, Probe, ReadView, Replicate, SetConfigEpoch, command,
};
use planner::nodes::{Action, Boot, FailoverMode, Following, NodeFacts, Peer, Start};
use topology::{NodeId, NodeView, Position, Role, SlotMove, SlotRange, SlotSet, ViewSummary, ViewedNode};

/// Keys that move in one go. While the last of them are handed over clients wait, and afterwards while the old owner deletes them: with so
/// many, some tens of milliseconds each.
const KEYS_AT_MOST: u32 = 40_000;

/// The action as it travels.
pub fn action(action: &Action) -> command::Action {
    match action {
        Action::Probe => command::Action::Probe(Probe {}),
        Action::ReadView => command::Action::ReadView(ReadView {}),
        Action::Meet(peers) => command::Action::Meet(Meet { nodes: peers.iter().map(address).collect() }),
        Action::AddSlots(slots) => command::Action::AddSlots(AddSlots { ranges: ranges(slots) }),
        Action::SetConfigEpoch(epoch) => command::Action::SetConfigEpoch(SetConfigEpoch { config_epoch: *epoch }),
        Action::Replicate(primary) => {
            command::Action::Replicate(Replicate { primary_node_id: primary.as_str().to_owned() })
        }
        Action::Failover(mode, at_least) => command::Action::Failover(Failover {
            mode: failover_mode(*mode).into(),
            at_least: at_least.as_ref().map(|Position { replication_id, offset }| contract::Position {
                replication_id: replication_id.clone(),
                offset: *offset,
            }),
        }),
        Action::Forget(ids) => {
            command::Action::Forget(Forget { node_ids: ids.iter().map(|id| id.as_str().to_owned()).collect() })
        }
        Action::MigrateSlots(slots, target, replicas) => command::Action::MigrateSlots(MigrateSlots {
            ranges: ranges(slots),
            target_node_id: target.as_str().to_owned(),
            keys_at_most: KEYS_AT_MOST,
            replicas_at_least: u32::try_from(*replicas).unwrap_or(u32::MAX),
        }),
        Action::Leave => command::Action::Leave(Leave {}),
        Action::OpenGate(start, reason) => {
            command::Action::OpenGate(OpenGate { start: how(*start).into(), reason: reason.clone() })
        }
    }
}

fn address(peer: &Peer) -> NodeAddress {
    use api::names::port::{BUS, VALKEY};
    NodeAddress {
        ip: peer.ip.clone(),
        port: VALKEY.unsigned_abs(),
        bus_port: BUS.unsigned_abs(),
        node_id: peer.node_id.as_str().to_owned(),
    }
}

fn ranges(slots: &SlotSet) -> Vec<contract::SlotRange> {
    let range = |range: &SlotRange| contract::SlotRange { first: range.first.into(), last: range.last.into() };
    slots.ranges().iter().map(range).collect()
}

fn failover_mode(mode: FailoverMode) -> contract::FailoverMode {
    match mode {
        FailoverMode::Coordinated => contract::FailoverMode::Coordinated,
        FailoverMode::Force => contract::FailoverMode::Force,
        FailoverMode::Takeover => contract::FailoverMode::Takeover,
    }
}

fn how(start: Start) -> contract::Start {
    match start {
        Start::AsIs => contract::Start::AsIs,
        Start::Fresh => contract::Start::Fresh,
    }
}

/// What a node says of itself, as of `at`.
pub fn facts(state: &NodeState, view: Option<&ClusterView>, at: Timestamp) -> Option<NodeFacts> {
    let uptime = SignedDuration::from_secs(i64::try_from(state.uptime_seconds).ok()?);
    Some(NodeFacts {
        node_id: NodeId::parse(&state.node_id)?,
        role: role(state.role())?,
        loading: state.condition() == Condition::Loading,
        serving: state.condition() == Condition::Ready,
        replication_offset: state.replication_offset,
        replication_id: Some(state.replication_id.clone()).filter(|id| is_history(id)),
        primary: NodeId::parse(&state.primary_node_id),
        primary_link_up: state.primary_link_up,
        following: following(state, at),
        keys: state.keys,
        started_at: at.checked_sub(uptime).ok(),
        summary: view.map(summary).unwrap_or_default(),
    })
}

fn following(state: &NodeState, at: Timestamp) -> Following {
    match state.primary_link_down_seconds {
        None => Following::Unknown,
        Some(_) if state.primary_link_up => Following::Now,
        Some(seconds) if seconds >= 0 => {
            at.checked_sub(SignedDuration::from_secs(seconds)).map_or(Following::Never, Following::Until)
        }
        Some(_) => Following::Never,
    }
}

fn role(role: contract::Role) -> Option<Role> {
    match role {
        contract::Role::Primary => Some(Role::Primary),
        contract::Role::Replica => Some(Role::Replica),
        contract::Role::Unspecified => None,
    }
}

fn summary(view: &ClusterView) -> ViewSummary {
    ViewSummary {
        state_ok: view.state_ok,
        current_epoch: view.current_epoch,
        my_epoch: view.my_epoch,
        known_nodes: view.known_nodes,
        primaries: view.primaries,
        failing_nodes: view.failing_nodes,
        failed_nodes: view.failed_nodes,
        slots_assigned: view.slots_assigned,
        slots_mine: view.slots_mine,
        slots_digest: view.slots_digest.clone(),
    }
}

/// None when it does not say of which history.
pub fn position(position: &contract::Position) -> Option<Position> {
    let contract::Position { replication_id, offset } = position.clone();
    is_history(&replication_id).then_some(Position { replication_id, offset })
}

/// Valkey's have 40 digits. It goes into the status, and a tenant's sidecar may send anything.
fn is_history(replication_id: &str) -> bool {
    (1..=64).contains(&replication_id.len())
}

pub fn boot(boot: &contract::Boot, since: Timestamp) -> Boot {
    Boot {
        since,
        reason: boot.reason.clone(),
        last_node_id: NodeId::parse(&boot.last_node_id),
        last_role: role(boot.last_role()),
        has_data: boot.has_data,
        clean_stop: boot.clean_stop,
        owned_slots: boot.owned_slots,
        known_replicas: boot.known_replicas.iter().filter_map(|id| NodeId::parse(id)).collect(),
        better_copy: NodeId::parse(&boot.better_copy),
        journal: boot.journal,
    }
}

/// The whole view; None when a line of it makes no sense, because half a view would hide nodes.
pub fn view(view: &FullView, read_at: Timestamp) -> Option<NodeView> {
    let nodes = view.nodes.iter().map(viewed).collect::<Option<Vec<_>>>()?;
    Some(NodeView { read_at, summary: view.summary.as_ref().map(summary).unwrap_or_default(), nodes })
}

fn viewed(node: &contract::ViewedNode) -> Option<ViewedNode> {
    Some(ViewedNode {
        node_id: NodeId::parse(&node.node_id)?,
        ip: node.address.as_ref().map(|address| address.ip.clone()).unwrap_or_default(),
        hostname: Some(node.hostname.clone()).filter(|name| !name.is_empty()),
        // A node that is only half met has no role yet.
        role: role(node.role()).or(node.handshake.then_some(Role::Primary))?,
        myself: node.myself,
        failing: node.failing,
        possibly_failing: node.possibly_failing,
        handshake: node.handshake,
        link_up: node.link_up,
        primary: NodeId::parse(&node.primary_node_id),
        config_epoch: node.config_epoch,
        slots: slots(&node.slots)?,
        moves: node.moving.iter().map(moving).collect::<Option<Vec<_>>>()?,
    })
}

fn moving(open: &contract::SlotMove) -> Option<SlotMove> {
    let (slot, other) = (u16::try_from(open.slot).ok()?, NodeId::parse(&open.other_node_id)?);
    Some(SlotMove { slot, other, importing: open.importing })
}

fn slots(ranges: &[contract::SlotRange]) -> Option<SlotSet> {
    let range = |range: &contract::SlotRange| {
        Some(SlotRange::new(u16::try_from(range.first).ok()?, u16::try_from(range.last).ok()?))
    };
    SlotSet::of(ranges.iter().map(range).collect::<Option<Vec<_>>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_stand_open_are_told_and_half_a_view_is_none() {
        let told = |slot: u32, other: &str| {
            let open = contract::SlotMove { slot, other_node_id: other.to_owned(), importing: true };
            let role = contract::Role::Primary.into();
            let node = contract::ViewedNode { node_id: "a".repeat(40), role, moving: vec![open], ..Default::default() };
            view(&FullView { summary: None, nodes: vec![node] }, Timestamp::UNIX_EPOCH)
        };
        let other = "b".repeat(40);
        let moves = told(5, &other).and_then(|view| view.nodes.first().map(|node| node.moves.clone()));
        assert_eq!(moves, Some(vec![SlotMove { slot: 5, other: other.as_str().into(), importing: true }]));
        assert_eq!((told(70_000, &other), told(5, "")), (None, None));
    }

    #[test]
    fn how_long_a_link_is_down_tells_until_when_it_was_followed() {
        let at = Timestamp::from_second(1_000).unwrap();
        let following = |up, down| {
            let state = NodeState { primary_link_up: up, primary_link_down_seconds: down, ..NodeState::default() };
            following(&state, at)
        };
        let until = |second| Following::Until(Timestamp::from_second(second).unwrap());
        assert_eq!(
            [following(true, None), following(false, None)],
            [Following::Unknown; 2],
            "an older sidecar does not say"
        );
        assert_eq!(
            [following(true, Some(0)), following(false, Some(7)), following(false, Some(0))],
            [Following::Now, until(993), until(1_000)]
        );
        assert_eq!([following(false, Some(-1)), following(false, Some(i64::MAX))], [Following::Never; 2]);
    }
}
