//! AddSlots: this node serves slots that nobody serves.

use super::desk::{Desk, Stop, Work, myself};
use link::contract;
use topology::{ClusterNodes, SlotRange, SlotSet};

const SLOTS: u32 = 16_384;

pub async fn run(desk: &mut Desk<'_>, wanted: &contract::AddSlots) -> Work {
    let ranges = wanted.ranges.iter().map(range).collect::<Result<Vec<SlotRange>, Stop>>()?;
    let slots = SlotSet::of(ranges).map_err(|error| Stop::invalid(error.to_string()))?;
    if slots.is_empty() {
        return Err(Stop::invalid("ranges is empty: name at least one slot"));
    }
    let nodes = desk.nodes().await?;
    if !myself(&nodes)?.is_primary() {
        return Err(Stop::unsafe_because("this node is a replica: only a primary serves slots"));
    }
    let missing = missing(&nodes, &slots)?;
    if missing.is_empty() {
        return Ok(false);
    }
    desk.connect().await?.cluster_add_slot_ranges(missing.ranges()).await?;
    desk.did(format!(
        "took {} slots in {} ranges",
        missing.count(),
        missing.ranges().len()
    ));
    let all_mine = |mut connection: valkey::Connection| {
        let slots = slots.clone();
        async move {
            let nodes = connection.cluster_nodes().await?;
            let mine = |slot| nodes.myself().is_some_and(|node| node.owns(slot));
            Ok(slots.iter().all(mine))
        }
    };
    desk.until("this node serves the slots", all_mine).await?;
    Ok(true)
}

fn range(range: &contract::SlotRange) -> Result<SlotRange, Stop> {
    let whole = (range.first <= range.last && range.last < SLOTS).then_some((range.first, range.last));
    let range =
        whole.and_then(|(first, last)| Some(SlotRange { first: first.try_into().ok()?, last: last.try_into().ok()? }));
    range.ok_or_else(|| Stop::invalid("ranges: first must not be above last, and last below 16384"))
}

/// What nobody serves. A slot of another node is never taken, dead or not: its data is there.
fn missing(nodes: &ClusterNodes, wanted: &SlotSet) -> Result<SlotSet, Stop> {
    let others = nodes.0.iter().filter(|node| !node.has_flag("myself"));
    let taken = others.filter_map(|node| Some((wanted.intersection(&node.slots).iter().next()?, &node.id)));
    match taken.min() {
        Some((slot, owner)) => Err(Stop::unsafe_because(format!("slot {slot} is served by {owner}"))),
        None => Ok(nodes.myself().map_or_else(|| wanted.clone(), |myself| wanted.difference(&myself.slots))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mine_is_left_out_and_what_is_anothers_stops_it() {
        let nodes = ClusterNodes::parse(
            "a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 3-5\n\
             b 10.0.0.2:6379@16379 master,fail - 0 0 1 connected 100\n",
        )
        .unwrap();
        let asked = |first, last| missing(&nodes, &SlotSet::of([SlotRange::new(first, last)]).unwrap());
        assert_eq!(asked(0, 9).unwrap().to_string(), "0-2,6-9");
        assert!(asked(3, 5).unwrap().is_empty());
        assert!(asked(90, 110).is_err());
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        for (first, last) in [(5, 4), (0, 16_384), (70_000, 70_000)] {
            assert!(range(&contract::SlotRange { first, last }).is_err(), "{first}-{last}");
        }
        assert!(range(&contract::SlotRange { first: 0, last: 16_383 }).is_ok());
    }
}
