//! Counts connections and handshakes, in all and per address, and says no in time. What a cluster and a pod may have is counted
//! in `shares`: who they are is known only after the handshake. No IO; time is passed in.

use super::{Limits, Refusal, bucket::Bucket};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// How often addresses are forgotten that have nothing open and all of their handshakes earned back.
const FORGET: Duration = Duration::from_secs(10);

#[derive(Default, Clone, Copy)]
struct Count {
    open: usize,
    handshaking: usize,
}

struct Address {
    count: Count,
    /// Outlives the connections: dialling again and again is what it is for.
    handshakes: Bucket,
}

struct Counts {
    all: Count,
    by_address: HashMap<IpAddr, Address>,
    forgotten: Instant,
}

pub struct Admission {
    limits: Limits,
    counts: Mutex<Counts>,
}

impl Admission {
    pub fn new(limits: Limits) -> Arc<Self> {
        let counts = Counts { all: Count::default(), by_address: HashMap::new(), forgotten: Instant::now() };
        Arc::new(Self { limits, counts: Mutex::new(counts) })
    }

    /// A place for one connection, held until the ticket is dropped.
    pub fn enter(self: &Arc<Self>, address: IpAddr, now: Instant) -> Result<Ticket, Refusal> {
        let (mut counts, burst) = (self.counts.lock(), self.limits.handshakes_burst_per_address);
        self.forget(&mut counts, now);
        let all = counts.all;
        let here = counts.by_address.entry(address);
        let here = here.or_insert_with(|| Address { count: Count::default(), handshakes: Bucket::full(burst, now) });
        self.check(all, here, now)?;
        change(&mut counts, address, |count| {
            count.open += 1;
            count.handshaking += 1;
        });
        Ok(Ticket { admission: self.clone(), address, handshaking: true })
    }

    fn check(&self, all: Count, here: &mut Address, now: Instant) -> Result<(), Refusal> {
        let limits = &self.limits;
        if all.open >= limits.connections {
            return Err(Refusal::TooManyConnections);
        }
        if here.count.open >= limits.connections_per_address {
            return Err(Refusal::TooManyFromAddress);
        }
        let under_way = all.handshaking >= limits.handshakes || here.count.handshaking >= limits.handshakes_per_address;
        let (burst, per_second) = (limits.handshakes_burst_per_address, limits.handshakes_per_second_per_address);
        if under_way || !here.handshakes.take(burst, per_second, now) {
            return Err(Refusal::TooManyHandshakes);
        }
        Ok(())
    }

    fn forget(&self, counts: &mut Counts, now: Instant) {
        if now < counts.forgotten + FORGET {
            return;
        }
        counts.forgotten = now;
        let (burst, per_second) =
            (self.limits.handshakes_burst_per_address, self.limits.handshakes_per_second_per_address);
        let idle = |here: &Address| here.count.open == 0 && here.handshakes.is_full(burst, per_second, now);
        counts.by_address.retain(|_, here| !idle(here));
    }

    pub fn open(&self) -> usize {
        self.counts.lock().all.open
    }
}

fn change(counts: &mut Counts, address: IpAddr, with: impl Fn(&mut Count)) {
    with(&mut counts.all);
    if let Some(here) = counts.by_address.get_mut(&address) {
        with(&mut here.count);
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
            handshakes_burst_per_address: 10,
            handshakes_per_second_per_address: 5,
            ..Limits::default()
        };
        Admission::new(limits)
    }

    #[test]
    fn one_address_cannot_take_all_handshakes() {
        let (admission, now) = (admission(), Instant::now());
        let _held = [admission.enter(address(1), now), admission.enter(address(1), now)];
        assert_eq!(admission.enter(address(1), now).err(), Some(Refusal::TooManyHandshakes));
        assert!(admission.enter(address(2), now).is_ok());
    }

    #[test]
    fn one_address_cannot_take_all_connections() {
        let (admission, now) = (admission(), Instant::now());
        let mut held = Vec::new();
        for _ in 0..3 {
            let mut ticket = admission.enter(address(1), now).expect("there is room");
            ticket.established();
            held.push(ticket);
        }
        assert_eq!(admission.enter(address(1), now).err(), Some(Refusal::TooManyFromAddress));
        let mut other = admission.enter(address(2), now).expect("there is room for others");
        other.established();
        assert_eq!(admission.enter(address(3), now).err(), Some(Refusal::TooManyConnections));
    }

    #[test]
    fn an_address_that_dials_again_and_again_is_slowed_to_its_rate() {
        let (admission, now) = (admission(), Instant::now());
        let dials = |at: Instant| (0..50).filter(|_| admission.enter(address(1), at).is_ok()).count();
        assert_eq!(dials(now), 10, "the burst");
        assert_eq!(dials(now + Duration::from_secs(1)), 5, "what a second earns");
        assert!(admission.enter(address(2), now).is_ok(), "others are not slowed");
    }

    #[test]
    fn a_place_is_free_again_when_its_ticket_is_dropped_and_in_the_end_nothing_is_remembered() {
        let (admission, now) = (admission(), Instant::now());
        drop(admission.enter(address(1), now));
        assert_eq!(admission.open(), 0);
        drop(admission.enter(address(2), now + FORGET));
        let known: Vec<_> = admission.counts.lock().by_address.keys().copied().collect();
        assert_eq!(known, [address(2)]);
    }
}
