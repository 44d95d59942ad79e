//! AddSlots: this node serves slots that no node serves.

use super::execution::{Execution, Stop, Work};
use link::contract;
use sidecar_rules::commands::add_slots;
use topology::{SLOTS, SlotRange, SlotSet};

pub async fn run(execution: &mut Execution<'_>, wanted: &contract::AddSlots) -> Work {
    let slots = slots(&wanted.ranges)?;
    let missing = add_slots::missing(&execution.nodes().await?, &slots)?;
    if missing.is_empty() {
        return Ok(false);
    }
    execution.connect().await?.cluster_add_slot_ranges(missing.ranges()).await?;
    execution.did(format!("took {} slots in {} ranges", missing.count(), missing.ranges().len()));
    let all_mine = |mut connection: valkey::Connection| {
        let slots = slots.clone();
        async move {
            let nodes = connection.cluster_nodes().await?;
            let mine = |slot| nodes.myself().is_some_and(|node| node.owns(slot));
            Ok(slots.iter().all(mine))
        }
    };
    execution.until("this node serves the slots", all_mine).await?;
    Ok(true)
}

pub fn slots(ranges: &[contract::SlotRange]) -> Result<SlotSet, Stop> {
    let range = |range: &contract::SlotRange| {
        let whole = range.first <= range.last && range.last < u32::from(SLOTS);
        whole.then_some(SlotRange::new(range.first.try_into().ok()?, range.last.try_into().ok()?))
    };
    let ranges = ranges.iter().map(range).collect::<Option<Vec<SlotRange>>>();
    let slots = ranges.and_then(|ranges| SlotSet::of(ranges).ok());
    slots.ok_or_else(|| Stop::invalid("ranges: first must not be above last, and last below 16384"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_none_are_refused() {
        for (first, last) in [(5, 4), (0, 16_384), (70_000, 70_000)] {
            assert!(slots(&[contract::SlotRange { first, last }]).is_err(), "{first}-{last}");
        }
        assert!(slots(&[contract::SlotRange { first: 0, last: 16_383 }]).is_ok());
    }
}
