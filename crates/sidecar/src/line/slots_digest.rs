//! A digest over who owns which slot. Pure. Two nodes that see the same owners have the same digest, however their views are
//! ordered or cut into ranges.

use sha2::{Digest, Sha256};
use topology::ClusterNodes;

/// SHA-256 over `<first>-<last> <node id>\n` for every longest run of slots with one owner, in the order of slots.
pub fn slots_digest(nodes: &ClusterNodes) -> Vec<u8> {
    let mut digest = Sha256::new();
    for (first, last, owner) in runs(nodes) {
        digest.update(format!("{first}-{last} {owner}\n"));
    }
    digest.finalize().to_vec()
}

fn runs(nodes: &ClusterNodes) -> Vec<(u16, u16, &str)> {
    let owned = nodes
        .0
        .iter()
        .flat_map(|node| node.slots.ranges().iter().map(|range| (range.first, range.last, node.id.as_str())));
    let mut ranges: Vec<_> = owned.collect();
    ranges.sort_unstable();
    let mut runs: Vec<(u16, u16, &str)> = Vec::with_capacity(ranges.len());
    for (first, last, owner) in ranges {
        match runs.last_mut() {
            Some((_, end, previous)) if *previous == owner && end.checked_add(1) == Some(first) => *end = last,
            _ => runs.push((first, last, owner)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(lines: &[&str]) -> Vec<u8> {
        let line = |line: &&str| {
            let (id, slots) = line.split_once(' ').unwrap();
            format!("{id} 10.0.0.1:6379@16379 master - 0 0 1 connected {slots}\n")
        };
        slots_digest(&ClusterNodes::parse(&lines.iter().map(line).collect::<String>()).unwrap())
    }

    #[test]
    fn order_and_cut_of_ranges_do_not_matter() {
        assert_eq!(digest(&["a 0-9 10", "b 11-16383"]), digest(&["b 11-99 100-16383", "a 0-10"]));
        assert_eq!(digest(&["a 0-10"]).len(), 32);
    }

    #[test]
    fn an_owner_or_a_slot_more_or_less_matters() {
        let one = digest(&["a 0-10", "b 11-16383"]);
        assert_ne!(one, digest(&["b 0-10", "a 11-16383"]));
        assert_ne!(one, digest(&["a 0-9", "b 11-16383"]));
        assert_ne!(one, digest(&["a 0-9", "b 10-16383"]));
    }
}
