//! Sets of hash slots, written as ranges. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Slots of a cluster, always.
pub const SLOTS: u16 = 16_384;

/// From `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotRange {
    pub first: u16,
    pub last: u16,
}

impl SlotRange {
    pub fn new(first: u16, last: u16) -> SlotRange {
        SlotRange { first, last }
    }

    fn count(&self) -> u32 {
        u32::from(self.last) + 1 - u32::from(self.first)
    }
}

/// Slots as the fewest ranges in ascending order. Its text is `0-5460,9000`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SlotSet {
    ranges: Vec<SlotRange>,
}

/// Why a text or a range is no set of slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotsError {
    #[error("`{0}` is no slot range; write `0-5460,9000`")]
    Malformed(String),
    #[error("slot range {0}-{1} is not within 0-16383")]
    OutOfBounds(u16, u16),
}

impl SlotSet {
    pub fn all() -> SlotSet {
        SlotSet { ranges: vec![SlotRange::new(0, SLOTS - 1)] }
    }

    /// From ranges in any order, overlapping or not.
    pub fn of(ranges: impl IntoIterator<Item = SlotRange>) -> Result<SlotSet, SlotsError> {
        let mut ranges: Vec<SlotRange> = ranges.into_iter().collect();
        if let Some(bad) = ranges.iter().find(|range| range.first > range.last || range.last >= SLOTS) {
            return Err(SlotsError::OutOfBounds(bad.first, bad.last));
        }
        ranges.sort_unstable();
        Ok(SlotSet { ranges: merged(ranges) })
    }

    pub fn ranges(&self) -> &[SlotRange] {
        &self.ranges
    }

    /// Every slot, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.ranges.iter().flat_map(|range| range.first..=range.last)
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn count(&self) -> u32 {
        self.ranges.iter().map(SlotRange::count).sum()
    }

    pub fn is_all(&self) -> bool {
        self.count() == u32::from(SLOTS)
    }

    pub fn contains(&self, slot: u16) -> bool {
        self.ranges.iter().any(|range| range.first <= slot && slot <= range.last)
    }

    #[must_use]
    pub fn union(&self, other: &SlotSet) -> SlotSet {
        let mut ranges = [self.ranges.as_slice(), &other.ranges].concat();
        ranges.sort_unstable();
        SlotSet { ranges: merged(ranges) }
    }

    #[must_use]
    pub fn intersection(&self, other: &SlotSet) -> SlotSet {
        let pairs = self.ranges.iter().flat_map(|one| other.ranges.iter().map(move |two| (one, two)));
        let common = pairs.map(|(one, two)| SlotRange::new(one.first.max(two.first), one.last.min(two.last)));
        let mut ranges: Vec<SlotRange> = common.filter(|range| range.first <= range.last).collect();
        ranges.sort_unstable();
        SlotSet { ranges: merged(ranges) }
    }

    #[must_use]
    pub fn difference(&self, other: &SlotSet) -> SlotSet {
        self.intersection(&other.complement())
    }

    #[must_use]
    pub fn complement(&self) -> SlotSet {
        let mut gaps = Vec::new();
        let mut next = 0;
        for range in &self.ranges {
            if range.first > next {
                gaps.push(SlotRange::new(next, range.first - 1));
            }
            next = range.last + 1;
        }
        if next < SLOTS {
            gaps.push(SlotRange::new(next, SLOTS - 1));
        }
        SlotSet { ranges: gaps }
    }

    pub fn overlaps(&self, other: &SlotSet) -> bool {
        !self.intersection(other).is_empty()
    }

    /// The first `count` slots, or all when there are fewer.
    #[must_use]
    pub fn first(&self, count: u32) -> SlotSet {
        self.split_at(count).0
    }

    /// The last `count` slots, or all when there are fewer.
    #[must_use]
    pub fn last(&self, count: u32) -> SlotSet {
        self.split_at(self.count().saturating_sub(count)).1
    }

    /// The first `count` slots, and the rest.
    fn split_at(&self, count: u32) -> (SlotSet, SlotSet) {
        let (mut head, mut tail, mut left) = (SlotSet::default(), SlotSet::default(), count);
        for range in &self.ranges {
            let taken = left.min(range.count());
            left -= taken;
            let middle = range.first + u16::try_from(taken).unwrap_or(SLOTS);
            if taken > 0 {
                head.ranges.push(SlotRange::new(range.first, middle - 1));
            }
            if middle <= range.last {
                tail.ranges.push(SlotRange::new(middle, range.last));
            }
        }
        (head, tail)
    }
}

/// `slots` in `parts` sets of nearly equal size, in ascending order; the first ones have one more.
pub fn even(slots: &SlotSet, parts: usize) -> Vec<SlotSet> {
    let mut rest = slots.clone();
    let share = |left: usize, rest: &SlotSet| rest.count().div_ceil(u32::try_from(left).unwrap_or(u32::MAX));
    let mut sets = Vec::with_capacity(parts);
    for left in (1..=parts).rev() {
        let (head, tail) = rest.split_at(share(left, &rest));
        sets.push(head);
        rest = tail;
    }
    sets
}

fn merged(sorted: Vec<SlotRange>) -> Vec<SlotRange> {
    let mut ranges: Vec<SlotRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match ranges.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => last.last = last.last.max(range.last),
            _ => ranges.push(range),
        }
    }
    ranges
}

impl fmt::Display for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.ranges.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

impl FromStr for SlotRange {
    type Err = SlotsError;

    fn from_str(text: &str) -> Result<SlotRange, SlotsError> {
        let number = |part: &str| part.trim().parse().map_err(|_| SlotsError::Malformed(text.to_owned()));
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Ok(SlotRange::new(number(first)?, number(last)?))
    }
}

impl FromStr for SlotSet {
    type Err = SlotsError;

    fn from_str(text: &str) -> Result<SlotSet, SlotsError> {
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        SlotSet::of(parts.map(str::parse).collect::<Result<Vec<SlotRange>, _>>()?)
    }
}

impl TryFrom<String> for SlotSet {
    type Error = SlotsError;

    fn try_from(text: String) -> Result<SlotSet, SlotsError> {
        text.parse()
    }
}

impl From<SlotSet> for String {
    fn from(slots: SlotSet) -> String {
        slots.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> SlotSet {
        text.parse().unwrap()
    }

    #[test]
    fn three_primaries_share_the_slots_as_valkey_users_know_it() {
        let shares: Vec<String> = even(&SlotSet::all(), 3).iter().map(ToString::to_string).collect();
        assert_eq!(shares, ["0-5461", "5462-10922", "10923-16383"]);
    }

    #[test]
    fn ranges_that_touch_become_one() {
        assert_eq!(set("5,0-4,10,6-9").to_string(), "0-10");
    }

    #[test]
    fn in_a_status_it_is_a_text() {
        let written = serde_json::to_string(&set("0-5461,9000")).unwrap();
        assert_eq!(written, r#""0-5461,9000""#);
        assert_eq!(serde_json::from_str::<SlotSet>(&written).unwrap(), set("0-5461,9000"));
        assert!(serde_json::from_str::<SlotSet>(r#""5-99999""#).is_err());
    }

    #[test]
    fn what_is_no_range_is_named() {
        assert_eq!("0-x".parse::<SlotSet>(), Err(SlotsError::Malformed("0-x".to_owned())));
        assert_eq!("9-16384".parse::<SlotSet>(), Err(SlotsError::OutOfBounds(9, 16_384)));
        assert_eq!("9-3".parse::<SlotSet>(), Err(SlotsError::OutOfBounds(9, 3)));
    }

    fn any_set() -> impl Strategy<Value = SlotSet> {
        let range =
            (0..SLOTS, 0..3000u16).prop_map(|(first, more)| SlotRange::new(first, (first + more).min(SLOTS - 1)));
        proptest::collection::vec(range, 0..6).prop_map(|ranges| SlotSet::of(ranges).unwrap())
    }

    proptest! {
        #[test]
        fn sets_behave_as_sets(one in any_set(), two in any_set(), slot in 0..SLOTS) {
            prop_assert_eq!(one.union(&two).contains(slot), one.contains(slot) || two.contains(slot));
            prop_assert_eq!(one.intersection(&two).contains(slot), one.contains(slot) && two.contains(slot));
            prop_assert_eq!(one.difference(&two).contains(slot), one.contains(slot) && !two.contains(slot));
            prop_assert_eq!(set(&one.to_string()), one);
        }

        #[test]
        fn even_parts_are_disjoint_complete_and_of_nearly_equal_size(slots in any_set(), parts in 1..40usize) {
            let shares = even(&slots, parts);
            let total: u32 = shares.iter().map(SlotSet::count).sum();
            let joined = shares.iter().fold(SlotSet::default(), |all, share| all.union(share));
            let sizes: Vec<u32> = shares.iter().map(SlotSet::count).collect();
            prop_assert_eq!((total, &joined, shares.len()), (slots.count(), &slots, parts));
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
    }
}
