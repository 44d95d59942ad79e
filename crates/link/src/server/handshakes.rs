//! Handshakes under way, and which of them makes room for another when there are too many. No IO.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};
use tokio::sync::oneshot;

/// By how many times more handshakes an address must have than another for one of its that goes on to make room: work on it is lost,
/// and when everybody comes at once some addresses have twice what others have.
const GREEDY: usize = 4;

/// By number, so the oldest first; whoever waits for the other half of one learns that it is gone.
type ByAge = BTreeMap<u64, oneshot::Sender<()>>;

#[derive(Default)]
struct Here {
    /// Nothing was said yet: nothing is lost but the connection.
    silent: ByAge,
    spoken: ByAge,
}

impl Here {
    fn count(&self) -> usize {
        self.silent.len() + self.spoken.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    pub address: IpAddr,
    number: u64,
}

#[derive(Default)]
pub struct Handshakes {
    /// Of addresses that have one.
    by_address: HashMap<IpAddr, Here>,
    count: usize,
    next: u64,
}

impl Handshakes {
    pub fn count(&self) -> usize {
        self.count
    }

    pub fn of(&self, address: IpAddr) -> usize {
        self.by_address.get(&address).map_or(0, Here::count)
    }

    /// With what resolves when it is ended.
    pub fn begin(&mut self, address: IpAddr) -> (Handshake, oneshot::Receiver<()>) {
        let (held, ended) = oneshot::channel();
        let number = self.next;
        self.next += 1;
        self.count += 1;
        self.by_address.entry(address).or_default().silent.insert(number, held);
        (Handshake { address, number }, ended)
    }

    /// Its first byte has come.
    pub fn spoke(&mut self, handshake: Handshake) {
        let here = self.by_address.get_mut(&handshake.address);
        if let Some((here, held)) = here.and_then(|here| here.silent.remove(&handshake.number).map(|held| (here, held)))
        {
            here.spoken.insert(handshake.number, held);
        }
    }

    /// It is done, or makes room; twice is as once.
    pub fn end(&mut self, handshake: Handshake) {
        let Some(here) = self.by_address.get_mut(&handshake.address) else { return };
        let held = here.silent.remove(&handshake.number).or_else(|| here.spoken.remove(&handshake.number));
        self.count -= usize::from(held.is_some());
        if here.count() == 0 {
            self.by_address.remove(&handshake.address);
        }
    }

    /// The oldest silent one of this address.
    pub fn silent_of(&self, address: IpAddr) -> Option<Handshake> {
        self.by_address.get(&address).and_then(|here| oldest(address, &here.silent))
    }

    /// Who makes room for one more of this address: a silent one, of the address that has most of them and no fewer under way than
    /// this one; else one of an address that has far more.
    pub fn least_worthy(&self, newcomer: IpAddr) -> Option<Handshake> {
        let wanted = self.of(newcomer) + 1;
        let silent = self.oldest_of_most(|here| &here.silent, wanted);
        silent.or_else(|| self.oldest_of_most(|here| &here.spoken, wanted * GREEDY))
    }

    fn oldest_of_most(&self, which: impl Fn(&Here) -> &ByAge, least: usize) -> Option<Handshake> {
        let all = self.by_address.iter().filter(|(_, here)| here.count() >= least && !which(here).is_empty());
        let most = all.max_by_key(|(_, here)| (which(here).len(), Reverse(which(here).keys().next().copied())));
        most.and_then(|(address, here)| oldest(*address, which(here)))
    }
}

fn oldest(address: IpAddr, of: &ByAge) -> Option<Handshake> {
    of.keys().next().map(|number| Handshake { address, number: *number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(127, 0, 0, last).into()
    }

    /// Handshakes of addresses, in this order, and what tells their end.
    fn begun(of: &[u8]) -> (Handshakes, Vec<(Handshake, oneshot::Receiver<()>)>) {
        let mut handshakes = Handshakes::default();
        let begun = of.iter().map(|last| handshakes.begin(address(*last))).collect();
        (handshakes, begun)
    }

    #[test]
    fn the_oldest_silent_one_of_the_address_with_most_of_them_makes_room() {
        let (mut handshakes, begun) = begun(&[1, 2, 2, 3, 2]);
        assert_eq!(handshakes.least_worthy(address(9)), Some(begun[1].0));
        handshakes.spoke(begun[1].0);
        handshakes.spoke(begun[2].0);
        assert_eq!(handshakes.least_worthy(address(9)), Some(begun[0].0), "of as many, the oldest");
        assert_eq!(handshakes.silent_of(address(2)), Some(begun[4].0));
    }

    #[test]
    fn one_that_goes_on_makes_room_only_for_an_address_that_has_far_fewer() {
        let (mut handshakes, begun) = begun(&[1, 2, 2, 2, 2]);
        begun.iter().for_each(|(handshake, _)| handshakes.spoke(*handshake));
        assert_eq!(handshakes.least_worthy(address(9)), Some(begun[1].0));
        assert_eq!(handshakes.least_worthy(address(1)), None, "it would have two, and the other four");
        assert_eq!(handshakes.least_worthy(address(2)), None);
    }

    #[test]
    fn an_address_that_has_many_takes_the_place_of_none_that_has_fewer() {
        let (mut handshakes, begun) = begun(&[1, 2, 2]);
        begun[1..].iter().for_each(|(handshake, _)| handshakes.spoke(*handshake));
        assert_eq!(handshakes.least_worthy(address(2)), None, "however silent it is yet");
        assert_eq!(handshakes.least_worthy(address(3)), Some(begun[0].0));
    }

    #[test]
    fn one_that_ended_is_told_and_is_counted_once() {
        let (mut handshakes, mut begun) = begun(&[1, 1]);
        let (handshake, mut ended) = begun.remove(0);
        assert!(ended.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        handshakes.end(handshake);
        handshakes.end(handshake);
        handshakes.spoke(handshake);
        assert!(ended.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        assert_eq!((handshakes.count(), handshakes.of(address(1))), (1, 1));
        handshakes.end(begun[0].0);
        assert!(handshakes.by_address.is_empty());
    }
}
