//! Slots have moved when both ends say so and the target's replicas have their keys. At the take-over itself they need not have them
//! yet, and until they do a failover of the target would lose them.

use super::{
    super::execution::{Execution, Stop},
    other_end::{OtherEnd, info_of},
};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use topology::{NodeId, SlotSet};
use valkey::{CallError, Info};

const POLL: Duration = Duration::from_millis(20);

/// `copies`: the target had replicas in step, so at least one must have everything.
pub async fn wait(execution: &Execution<'_>, target: &OtherEnd, slots: &SlotSet, copies: bool) -> Result<(), Stop> {
    let mut needed = None;
    let mut missing = "the target owns the slots in both views";
    let until = Instant::now() + execution.patience();
    while Instant::now() < until {
        let looked = look(execution, target, slots, copies, &mut needed);
        match looked.await {
            Ok(None) => return Ok(()),
            Ok(Some(why)) => missing = why,
            Err(error) if Instant::now() < until => return Err(error),
            Err(_) => {}
        }
        sleep(POLL).await;
    }
    Err(Stop::Late(format!("it did not come to this in time: {missing}")))
}

/// What is missing; `needed` is the target's offset at the moment when it first owned all.
async fn look(
    execution: &Execution<'_>,
    target: &OtherEnd,
    slots: &SlotSet,
    copies: bool,
    needed: &mut Option<u64>,
) -> Result<Option<&'static str>, Stop> {
    if needed.is_none() {
        let here = execution.connect().await?.cluster_nodes().await?;
        let there = target.nodes(execution).await?;
        let owns = |view: &topology::ClusterNodes, id: &NodeId| {
            view.find(id).is_some_and(|node| slots.difference(&node.slots).is_empty())
        };
        if !owns(&here, &target.id) || !owns(&there, &target.id) {
            return Ok(Some("the target owns the slots in both views"));
        }
    }
    let info = target.connect(execution).await?.info(&["replication"]).await?;
    let offset = info.number("master_repl_offset");
    let offset = needed.or(offset).ok_or(CallError::Unexpected { command: "INFO replication" })?;
    *needed = Some(offset);
    Ok((!have(&info, offset, copies).await).then_some("the target's replicas have what came with the slots"))
}

/// What replicas acknowledge by themselves is up to a second old, so those that seem behind are asked.
async fn have(primary: &Info, offset: u64, copies: bool) -> bool {
    let online: Vec<_> = primary.attached_replicas().into_iter().filter(|replica| replica.online).collect();
    for behind in online.iter().filter(|replica| replica.offset < offset) {
        let itself = info_of(behind.address).await;
        let has = |info: &Info| {
            info.text("master_replid") == primary.text("master_replid")
                && info.number("slave_repl_offset").is_some_and(|has| has >= offset)
        };
        if !itself.as_ref().is_some_and(has) {
            return false;
        }
    }
    !copies || !online.is_empty()
}
