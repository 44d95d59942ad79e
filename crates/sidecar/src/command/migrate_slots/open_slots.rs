//! Slots that an earlier try left open between this node and another: they are finished, or turned back. One that can be neither does
//! not hold up the others.

use super::{
    super::execution::{Execution, Stop},
    batch::Ends,
    other_end::OtherEnd,
    prepare,
};
use crate::line::server_state::ServerState;
use sidecar_rules::commands::{
    migrate_slots::{self as rules, Closing},
    myself,
};
use std::collections::BTreeMap;
use topology::{ClusterNodes, NodeId, SlotRange, SlotSet};

/// What came of it.
#[derive(Default)]
pub struct Closed {
    pub changed: bool,
    /// These are still open.
    pub stuck: SlotSet,
    /// Why, of the first.
    pub problem: Option<Stop>,
}

/// What is to come about in any case.
pub struct Order<'a> {
    pub target: &'a NodeId,
    pub slots: &'a SlotSet,
    pub replicas: u32,
}

impl Closed {
    fn stuck(&mut self, slots: &[u16], problem: Stop) {
        self.stuck = self.stuck.union(&set(slots));
        self.problem.get_or_insert(problem);
    }
}

fn set(slots: &[u16]) -> SlotSet {
    SlotSet::of(slots.iter().map(|slot| SlotRange::new(*slot, *slot))).unwrap_or_default()
}

/// Those that leave this node, and those that the target still expects from it.
pub async fn close_all(
    execution: &mut Execution<'_>,
    server: &ServerState,
    nodes: &ClusterNodes,
    order: &Order<'_>,
) -> Result<Closed, Stop> {
    let me = myself(nodes)?;
    let mut open: BTreeMap<NodeId, Vec<(u16, bool)>> = BTreeMap::new();
    for leaving in me.moves.iter().filter(|open| !open.importing) {
        open.entry(leaving.other.clone()).or_default().push((leaving.slot, true));
    }
    for expected in expected_by(execution, nodes, order.target, &me.id).await {
        if me.owns(expected) && !me.moves.iter().any(|open| !open.importing && open.slot == expected) {
            let asked_for = order.slots.contains(expected);
            open.entry(order.target.clone()).or_default().push((expected, asked_for));
        }
    }
    let mut closed = Closed::default();
    for (other, slots) in open {
        close(execution, server, nodes, (&other, &slots, order.replicas), &mut closed).await;
    }
    Ok(closed)
}

/// One that gives no answer is asked again when slots are to go there.
async fn expected_by(execution: &Execution<'_>, nodes: &ClusterNodes, target: &NodeId, me: &NodeId) -> Vec<u16> {
    let Ok(target) = OtherEnd::find(nodes, target) else { return Vec::new() };
    let Ok(view) = target.nodes(execution).await else { return Vec::new() };
    let moves = view.myself().map(|node| node.moves.clone()).unwrap_or_default();
    moves.into_iter().filter(|open| open.importing && open.other == *me).map(|open| open.slot).collect()
}

/// All between this node and one other.
async fn close(
    execution: &mut Execution<'_>,
    server: &ServerState,
    nodes: &ClusterNodes,
    (other, slots, replicas): (&NodeId, &[(u16, bool)], u32),
    closed: &mut Closed,
) {
    let there = ask(execution, nodes, other, slots).await;
    let (mut finish, mut back) = (Vec::new(), Vec::new());
    for (index, (slot, asked_for)) in slots.iter().enumerate() {
        let there = there
            .as_ref()
            .and_then(|(view, keys)| Some(rules::FarEnd { view: view.clone(), keys: keys.get(index).copied()? }));
        match rules::close(nodes, *slot, other, there.as_ref(), *asked_for) {
            Ok(Closing::Finish) => finish.push(*slot),
            Ok(Closing::TurnBack) => back.push(*slot),
            Err(objection) => closed.stuck(&[*slot], objection.into()),
        }
    }
    for (slots, closing) in [(back, Closing::TurnBack), (finish, Closing::Finish)] {
        if !slots.is_empty() {
            let came = carry_out(execution, server, nodes, (other, &slots, replicas), closing).await;
            closed.changed = true;
            if let Err(problem) = came {
                closed.stuck(&slots, problem);
            }
        }
    }
}

async fn carry_out(
    execution: &mut Execution<'_>,
    server: &ServerState,
    nodes: &ClusterNodes,
    (other, slots, replicas): (&NodeId, &[u16], u32),
    closing: Closing,
) -> Result<(), Stop> {
    let other = OtherEnd::find(nodes, other)?;
    if closing == Closing::TurnBack {
        let problem = Ends::open(execution, &other, server, slots.len()).await?.turn_back(slots).await;
        execution.did(format!("turned slots {} back, which were on their way to {}", set(slots), other.id));
        return problem.map_or(Ok(()), Err);
    }
    prepare(execution, server, &other, replicas, true).await?;
    let mut ends = Ends::open(execution, &other, server, slots.len()).await?;
    let (opened, problem) = ends.open_again(slots).await?;
    let moved = ends.finish(&opened).await;
    if !moved.slots.is_empty() {
        execution.did(format!("finished slots {}, which were half moved to {}", set(&moved.slots), other.id));
        execution.moved(u32::try_from(moved.slots.len()).unwrap_or(u32::MAX), moved.keys);
    }
    moved.problem.or(problem).map_or(Ok(()), Err)
}

async fn ask(
    execution: &Execution<'_>,
    nodes: &ClusterNodes,
    other: &NodeId,
    slots: &[(u16, bool)],
) -> Option<(ClusterNodes, Vec<u64>)> {
    let mut connection = OtherEnd::find(nodes, other).ok()?.connect(execution).await.ok()?;
    let view = connection.cluster_nodes().await.ok()?;
    let slots: Vec<u16> = slots.iter().map(|(slot, _)| *slot).collect();
    Some((view, connection.cluster_count_keys(&slots).await.ok()?))
}
