//! Slots that an earlier try left open between this node and another: they are finished, or turned back.

use super::{
    super::execution::{Execution, Stop},
    key_move::{KeyMove, set_slot},
    other_end::OtherEnd,
};
use sidecar_rules::commands::{
    migrate_slots::{self as rules, Closing},
    myself,
};
use topology::{ClusterNodes, NodeId, SlotMove};
use valkey::SlotOwner;

/// Those that leave this node, and those that the target still expects from it.
pub async fn close_all(execution: &mut Execution<'_>, target: &NodeId) -> Result<(), Stop> {
    let nodes = execution.nodes().await?;
    let me = myself(&nodes)?;
    let mut open: Vec<SlotMove> = me.moves.iter().filter(|open| !open.importing).cloned().collect();
    for expected in expected_by(execution, &nodes, target, &me.id).await {
        if me.owns(expected) && !open.iter().any(|open| open.slot == expected) {
            open.push(SlotMove { slot: expected, other: target.clone(), importing: false });
        }
    }
    for open in open {
        close(execution, &nodes, &open).await?;
    }
    Ok(())
}

/// One that gives no answer is asked again when slots are to go there.
async fn expected_by(execution: &Execution<'_>, nodes: &ClusterNodes, target: &NodeId, me: &NodeId) -> Vec<u16> {
    let Ok(target) = OtherEnd::find(nodes, target) else { return Vec::new() };
    let Ok(view) = target.nodes(execution).await else { return Vec::new() };
    let moves = view.myself().map(|node| node.moves.clone()).unwrap_or_default();
    moves.into_iter().filter(|open| open.importing && open.other == *me).map(|open| open.slot).collect()
}

async fn close(execution: &mut Execution<'_>, nodes: &ClusterNodes, open: &SlotMove) -> Result<(), Stop> {
    let SlotMove { slot, other, .. } = open;
    let there = ask(execution, nodes, open).await;
    match rules::close(nodes, *slot, other, there.as_ref())? {
        Closing::Finish => finish(execution, nodes, open).await,
        Closing::TurnBack => {
            let mut here = execution.connect_until_the_end().await?;
            set_slot(execution, &mut here, *slot, SlotOwner::Stable).await?;
            execution.did(format!("turned slot {slot} back, which was on its way to {other}"));
            Ok(())
        }
    }
}

async fn ask(execution: &Execution<'_>, nodes: &ClusterNodes, open: &SlotMove) -> Option<rules::OtherEnd> {
    let mut connection = OtherEnd::find(nodes, &open.other).ok()?.connect(execution).await.ok()?;
    let view = connection.cluster_nodes().await.ok()?;
    let keys = connection.cluster_count_keys(&[open.slot]).await.ok()?.first().copied()?;
    Some(rules::OtherEnd { view, keys })
}

/// Both ends are told again, for either may not have been told before. The target may own the slot already.
async fn finish(execution: &mut Execution<'_>, nodes: &ClusterNodes, open: &SlotMove) -> Result<(), Stop> {
    let SlotMove { slot, other, .. } = open;
    let other = OtherEnd::find(nodes, other)?;
    let (me, mut there) = (myself(nodes)?.id.clone(), other.connect(execution).await?);
    let owned = there.cluster_nodes().await?.myself().is_some_and(|node| node.owns(*slot));
    if !owned {
        set_slot(execution, &mut there, *slot, SlotOwner::Importing(&me)).await?;
    }
    let mut here = execution.connect_until_the_end().await?;
    set_slot(execution, &mut here, *slot, SlotOwner::Migrating(&other.id)).await?;
    let keys = KeyMove::open(execution, &other).await?.finish_slot(*slot, false).await?;
    execution.did(format!("finished slot {slot}, which was half moved to {}", other.id));
    execution.moved(1, keys);
    Ok(())
}
