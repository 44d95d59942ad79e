//! Which node owns which slot, put together from what several nodes say. Pure; `refresh` feeds it, the client reads it.

use crate::slot::SLOTS;
use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
};
use topology::{ClusterNode, ClusterNodes};

/// CLUSTER NODES of one node. It is asked for instead of CLUSTER SLOTS because it has the configuration epochs: with them a primary
/// that was replaced while it was away is told from its successor, and addresses stand in it also where clients get host names.
pub struct View {
    pub asked: SocketAddr,
    pub nodes: ClusterNodes,
}

#[derive(Clone, Debug, Default)]
pub struct SlotMap {
    /// By slot; empty until the first is known.
    owners: Vec<Option<Owner>>,
    /// Sorted.
    nodes: Vec<SocketAddr>,
    hostnames: HashMap<String, SocketAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Owner {
    address: SocketAddr,
    epoch: u64,
}

impl SlotMap {
    /// Where views disagree about a slot, the highest epoch wins.
    pub fn from_views(views: &[View]) -> Self {
        let mut map = Self::default();
        for view in views {
            for node in &view.nodes.0 {
                map.learn(view.asked, node);
            }
        }
        map.nodes.sort();
        map.nodes.dedup();
        map
    }

    fn learn(&mut self, asked: SocketAddr, node: &ClusterNode) {
        let address = if node.has_flag("myself") { node.address.or(Some(asked)) } else { node.address };
        let Some(address) = address else { return };
        self.nodes.push(address);
        if let Some(hostname) = &node.hostname {
            self.hostnames.insert(hostname.clone(), address);
        }
        for slot in node.slots.iter() {
            if self.known(slot).is_none_or(|owner| owner.epoch < node.config_epoch) {
                self.set(slot, Owner { address, epoch: node.config_epoch });
            }
        }
    }

    fn known(&self, slot: u16) -> Option<Owner> {
        self.owners.get(usize::from(slot)).copied().flatten()
    }

    fn set(&mut self, slot: u16, owner: Owner) {
        self.owners.resize(usize::from(SLOTS), None);
        if let Some(place) = self.owners.get_mut(usize::from(slot)) {
            *place = Some(owner);
        }
    }

    /// Takes over the newer map. Slots keep their owner when it has none for them, or an older one than a node that is still there:
    /// this time only nodes may have answered that do not know yet.
    pub fn update(&mut self, newer: Self) {
        for (slot, owner) in (0..SLOTS).filter_map(|slot| Some((slot, newer.known(slot)?))) {
            let successor = self.known(slot).filter(|known| known.epoch > owner.epoch);
            if successor.is_none_or(|known| newer.nodes.binary_search(&known.address).is_err()) {
                self.set(slot, owner);
            }
        }
        self.nodes = newer.nodes;
        self.hostnames.extend(newer.hostnames);
    }

    /// A node said that another has the slot now.
    pub fn moved(&mut self, slot: u16, address: SocketAddr) {
        let epoch = self.known(slot).map_or(0, |owner| owner.epoch);
        self.set(slot, Owner { address, epoch });
        if let Err(place) = self.nodes.binary_search(&address) {
            self.nodes.insert(place, address);
        }
    }

    pub fn owner(&self, slot: u16) -> Option<SocketAddr> {
        self.known(slot).map(|owner| owner.address)
    }

    pub fn nodes(&self) -> &[SocketAddr] {
        &self.nodes
    }

    pub fn address_of(&self, hostname: &str) -> Option<SocketAddr> {
        self.hostnames.get(hostname).copied()
    }

    pub fn uncovered(&self) -> Vec<u16> {
        (0..SLOTS).filter(|slot| self.known(*slot).is_none()).collect()
    }

    /// The slots of each owner, ordered by their first slot.
    pub fn shards(&self) -> Vec<Vec<u16>> {
        let mut shards: BTreeMap<SocketAddr, Vec<u16>> = BTreeMap::new();
        for slot in 0..SLOTS {
            if let Some(owner) = self.owner(slot) {
                shards.entry(owner).or_default().push(slot);
            }
        }
        let mut shards: Vec<_> = shards.into_values().collect();
        shards.sort();
        shards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(asked: u16, lines: &str) -> View {
        View { asked: address(asked), nodes: ClusterNodes::parse(lines).unwrap() }
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    const STALE: &str = "a 127.0.0.1:1@2,one.example myself,master - 0 0 1 connected 0-9\n\
        b 127.0.0.1:2@3 slave a 0 0 1 connected\n";
    const NEWER: &str = "a 127.0.0.1:1@2 master,fail - 0 0 1 connected\n\
        b 127.0.0.1:2@3 myself,master - 0 0 7 connected 0-9\n";

    #[test]
    fn the_owner_with_the_highest_epoch_wins_in_any_order() {
        for views in [[view(1, STALE), view(2, NEWER)], [view(2, NEWER), view(1, STALE)]] {
            let map = SlotMap::from_views(&views);
            assert_eq!(map.owner(5), Some(address(2)));
            assert_eq!(map.address_of("one.example"), Some(address(1)));
            assert_eq!(map.nodes(), [address(1), address(2)]);
        }
    }

    #[test]
    fn a_newer_map_replaces_the_older_but_keeps_what_it_does_not_know() {
        let mut map = SlotMap::from_views(&[view(2, NEWER)]);
        map.update(SlotMap::from_views(&[view(3, "c 127.0.0.1:3@4 myself,master - 0 0 0 connected 0-4\n")]));
        assert_eq!((map.owner(4), map.owner(5)), (Some(address(3)), Some(address(2))));
        assert_eq!(map.shards(), [vec![0, 1, 2, 3, 4], vec![5, 6, 7, 8, 9]]);
        assert_eq!(map.uncovered().len(), usize::from(SLOTS) - 10);
    }

    #[test]
    fn a_round_in_which_only_a_replaced_primary_answered_changes_nothing() {
        let mut map = SlotMap::from_views(&[view(2, NEWER)]);
        map.update(SlotMap::from_views(&[view(1, STALE)]));
        assert_eq!(map.owner(5), Some(address(2)));
    }

    #[test]
    fn a_node_that_does_not_know_its_address_has_the_one_it_was_asked_at() {
        let map = SlotMap::from_views(&[view(9, "a :6379@16379 myself,master - 0 0 0 connected 0-16383\n")]);
        assert_eq!(map.owner(77), Some(address(9)));
    }

    #[test]
    fn moved_counts_until_the_next_map() {
        let mut map = SlotMap::from_views(&[view(2, NEWER)]);
        map.moved(5, address(4));
        assert_eq!((map.owner(5), map.owner(6)), (Some(address(4)), Some(address(2))));
        assert!(map.nodes().contains(&address(4)));
    }
}
