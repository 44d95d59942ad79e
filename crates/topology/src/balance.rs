//! Which slots have to move so that some primaries share all of them evenly, and no others have any. Pure and deterministic: what does
//! not have to move stays.

use crate::identity::NodeId;
use crate::slots::{SLOTS, SlotSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Slots that one primary gives to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub from: NodeId,
    pub to: NodeId,
    pub slots: SlotSet,
}

/// The moves that leave each of `primaries` with an even share and everybody else with nothing. None are needed when it is so already.
pub fn even_out(owners: &BTreeMap<NodeId, SlotSet>, primaries: &[NodeId]) -> Vec<Move> {
    let shares = shares(owners, primaries);
    let share = |id: &NodeId| shares.get(id).copied().unwrap_or_default();
    let surplus = |(id, slots): (&NodeId, &SlotSet)| {
        let excess = slots.last(slots.count().saturating_sub(share(id)));
        (!excess.is_empty()).then(|| (id.clone(), excess))
    };
    let mut givers: Vec<(NodeId, SlotSet)> = owners.iter().filter_map(surplus).collect();
    let mut moves = Vec::new();
    for taker in primaries {
        let mut lacking = share(taker).saturating_sub(owners.get(taker).map(SlotSet::count).unwrap_or_default());
        while lacking > 0 {
            let Some((giver, excess)) = givers.iter_mut().find(|(_, excess)| !excess.is_empty()) else { break };
            let slots = excess.first(lacking);
            lacking -= slots.count();
            *excess = excess.difference(&slots);
            moves.push(Move { from: giver.clone(), to: taker.clone(), slots });
        }
    }
    moves
}

/// How many slots each shall have. Where the division leaves a remainder, those that have one more keep it; however far the moves are, it
/// is the same ones.
fn shares(owners: &BTreeMap<NodeId, SlotSet>, primaries: &[NodeId]) -> BTreeMap<NodeId, u32> {
    let Ok(count) = u32::try_from(primaries.len()) else { return BTreeMap::new() };
    let Some(share) = u32::from(SLOTS).checked_div(count) else { return BTreeMap::new() };
    let mut ordered: Vec<&NodeId> = primaries.iter().collect();
    let has_more = |id: &NodeId| owners.get(id).is_some_and(|slots| slots.count() > share);
    ordered.sort_by_key(|id| (Reverse(has_more(id)), *id));
    let remainder = usize::try_from(u32::from(SLOTS) % count).unwrap_or_default();
    let one_more = |index: usize| u32::from(index < remainder);
    ordered.into_iter().enumerate().map(|(index, id)| (id.clone(), share + one_more(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(number: usize) -> NodeId {
        NodeId::new(format!("{number:02}"))
    }

    fn ids(numbers: impl IntoIterator<Item = usize>) -> Vec<NodeId> {
        numbers.into_iter().map(id).collect()
    }

    fn evenly(count: usize) -> BTreeMap<NodeId, SlotSet> {
        crate::slots::even(&SlotSet::all(), count).into_iter().enumerate().map(|(n, slots)| (id(n), slots)).collect()
    }

    fn after(mut owners: BTreeMap<NodeId, SlotSet>, moves: &[Move]) -> BTreeMap<NodeId, SlotSet> {
        for Move { from, to, slots } in moves {
            let rest = owners[from].difference(slots);
            assert_eq!(rest.count() + slots.count(), owners[from].count(), "{from} has all of {slots}");
            owners.insert(from.clone(), rest);
            let grown = owners.get(to).cloned().unwrap_or_default().union(slots);
            owners.insert(to.clone(), grown);
        }
        owners.retain(|_, slots| !slots.is_empty());
        owners
    }

    #[test]
    fn three_become_six_in_three_pairs_that_share_nobody() {
        let moves = even_out(&evenly(3), &ids(0..6));
        let texts: Vec<String> = moves.iter().map(|m| format!("{}>{} {}", m.from, m.to, m.slots.count())).collect();
        assert_eq!(texts, ["00>03 2731", "01>04 2730", "02>05 2730"]);
    }

    #[test]
    fn who_leaves_gives_everything_and_the_others_give_nothing() {
        let moves = even_out(&evenly(6), &ids(0..3));
        assert!(moves.iter().all(|one| one.from >= id(3) && one.to < id(3)));
        assert_eq!(after(evenly(6), &moves).len(), 3);
    }

    #[test]
    fn nothing_moves_where_the_shares_differ_by_one_at_most() {
        assert_eq!(even_out(&evenly(3), &ids(0..3)), []);
        assert_eq!(even_out(&evenly(3), &[]), []);
    }

    proptest! {
        /// However far the moves got, planning again comes to the same end, and no slot moves that need not.
        #[test]
        fn moves_are_minimal_and_go_on_from_anywhere(before in 1..12usize, wanted in 1..12usize, done in 0..16384u32) {
            let primaries = ids(0..wanted);
            let moves = even_out(&evenly(before), &primaries);
            let moved: u32 = moves.iter().map(|one| one.slots.count()).sum();
            let kept = u32::from(SLOTS) / u32::try_from(before.max(wanted)).unwrap();
            prop_assert!(moved <= u32::from(SLOTS) - kept * u32::try_from(before.min(wanted)).unwrap());
            let mut owners = evenly(before);
            let mut left = done;
            for part in &moves {
                let slots = part.slots.first(left);
                left -= slots.count();
                owners = after(owners, &[Move { slots, ..part.clone() }]);
            }
            let end = after(owners.clone(), &even_out(&owners, &primaries));
            let again: u32 = even_out(&owners, &primaries).iter().map(|one| one.slots.count()).sum();
            prop_assert!(again <= moved);
            prop_assert_eq!(end.len(), wanted);
            prop_assert!(end.keys().all(|id| primaries.contains(id)));
            let counts: Vec<u32> = end.values().map(SlotSet::count).collect();
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
            prop_assert_eq!(even_out(&end, &primaries), []);
        }
    }
}
