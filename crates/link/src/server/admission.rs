//! Counts connections and handshakes, in all and per address, and says no in time. No IO.

use super::{Limits, Refusal};
use parking_lot::Mutex;
use std::{collections::HashMap, net::IpAddr, sync::Arc};

#[derive(Default, Clone, Copy)]
struct Count {
    open: usize,
    handshaking: usize,
}

#[derive(Default)]
struct Counts {
    all: Count,
    by_address: HashMap<IpAddr, Count>,
}

pub struct Admission {
    limits: Limits,
    counts: Mutex<Counts>,
}

impl Admission {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, counts: Mutex::default() })
    }

    /// A place for one connection, held until the ticket is dropped.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Result<Ticket, Refusal> {
        let mut counts = self.counts.lock();
        let here = counts.by_address.get(&address).copied().unwrap_or_default();
        self.check(counts.all, here)?;
        change(&mut counts, address, |count| {
            count.open += 1;
            count.handshaking += 1;
        });
        Ok(Ticket { admission: self.clone(), address, handshaking: true })
    }

    fn check(&self, all: Count, here: Count) -> Result<(), Refusal> {
        let limits = &self.limits;
        if all.open >= limits.connections {
            return Err(Refusal::TooManyConnections);
        }
        if here.open >= limits.connections_per_address {
            return Err(Refusal::TooManyFromAddress);
        }
        if all.handshaking >= limits.handshakes || here.handshaking >= limits.handshakes_per_address {
            return Err(Refusal::TooManyHandshakes);
        }
        Ok(())
    }

    pub fn open(&self) -> usize {
        self.counts.lock().all.open
    }
}

fn change(counts: &mut Counts, address: IpAddr, with: impl Fn(&mut Count)) {
    with(&mut counts.all);
    let here = counts.by_address.entry(address).or_default();
    with(here);
    if here.open == 0 {
        counts.by_address.remove(&address);
    }
}

pub struct Ticket {
    admission: Arc<Admission>,
    address: IpAddr,
    handshaking: bool,
}

impl Ticket {
    pub fn established(&mut self) {
        if std::mem::take(&mut self.handshaking) {
            change(&mut self.admission.counts.lock(), self.address, |count| count.handshaking -= 1);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.established();
        change(&mut self.admission.counts.lock(), self.address, |count| count.open -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(127, 0, 0, last).into()
    }

    fn admission() -> Arc<Admission> {
        let limits = Limits {
            connections: 4,
            connections_per_address: 3,
            handshakes: 3,
            handshakes_per_address: 2,
            ..Limits::default()
        };
        Admission::new(limits)
    }

    #[test]
    fn one_address_cannot_take_all_handshakes() {
        let admission = admission();
        let _held = [admission.enter(address(1)), admission.enter(address(1))];
        assert_eq!(admission.enter(address(1)).err(), Some(Refusal::TooManyHandshakes));
        assert!(admission.enter(address(2)).is_ok());
    }

    #[test]
    fn one_address_cannot_take_all_connections() {
        let admission = admission();
        let mut held = Vec::new();
        for _ in 0..3 {
            let mut ticket = admission.enter(address(1)).expect("there is room");
            ticket.established();
            held.push(ticket);
        }
        assert_eq!(admission.enter(address(1)).err(), Some(Refusal::TooManyFromAddress));
        let mut other = admission.enter(address(2)).expect("there is room for others");
        other.established();
        assert_eq!(admission.enter(address(3)).err(), Some(Refusal::TooManyConnections));
    }

    #[test]
    fn a_place_is_free_again_when_its_ticket_is_dropped_and_nothing_is_remembered() {
        let admission = admission();
        drop(admission.enter(address(1)));
        assert_eq!(admission.open(), 0);
        assert!(admission.counts.lock().by_address.is_empty());
    }
}
