//! Counts connections and handshakes, in all and per address, and says no in time. What a cluster and a pod may have is counted
//! in `shares`: who they are is known only after the handshake. No IO; time is passed in.

use super::{
    Limits, Refusal,
    bucket::Bucket,
    handshakes::{Handshake, Handshakes},
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// How often addresses are forgotten that have nothing open and all of their handshakes earned back.
const FORGET: Duration = Duration::from_secs(10);

struct Address {
    open: usize,
    /// Outlives the connections: dialling again and again is what it is for.
    dials: Bucket,
}

struct Counts {
    open: usize,
    handshakes: Handshakes,
    by_address: HashMap<IpAddr, Address>,
    forgotten: Instant,
}

pub struct Admission {
    limits: Limits,
    counts: Mutex<Counts>,
}

impl Admission {
    pub fn new(limits: Limits) -> Arc<Self> {
        let (handshakes, by_address) = (Handshakes::default(), HashMap::new());
        let counts = Counts { open: 0, handshakes, by_address, forgotten: Instant::now() };
        Arc::new(Self { limits, counts: Mutex::new(counts) })
    }

    /// A place for one connection, held until the ticket is dropped.
    pub fn enter(self: &Arc<Self>, address: IpAddr, now: Instant) -> Result<Ticket, Refusal> {
        let mut counts = self.counts.lock();
        counts.forget(&self.limits, now);
        counts.enter(&self.limits, address, now)?;
        let (handshake, displaced) = counts.handshakes.begin(address);
        Ok(Ticket { admission: self.clone(), handshake, displaced })
    }

    pub fn open(&self) -> usize {
        self.counts.lock().open
    }
}

impl Counts {
    fn enter(&mut self, limits: &Limits, address: IpAddr, now: Instant) -> Result<(), Refusal> {
        if self.open >= limits.connections {
            return Err(Refusal::TooManyConnections);
        }
        let makes_room = self.makes_room(limits, address)?;
        let burst = limits.handshakes_burst_per_address;
        let here = self.by_address.entry(address);
        let here = here.or_insert_with(|| Address { open: 0, dials: Bucket::full(burst, now) });
        if here.open >= limits.connections_per_address {
            return Err(Refusal::TooManyFromAddress);
        }
        if !here.dials.take(burst, limits.handshakes_per_second_per_address, now) {
            return Err(Refusal::TooManyHandshakes);
        }
        here.open += 1;
        self.open += 1;
        makes_room.into_iter().for_each(|handshake| self.handshakes.end(handshake));
        Ok(())
    }

    /// Whose handshake ends for one more of this address, if there is no room anyway.
    fn makes_room(&self, limits: &Limits, address: IpAddr) -> Result<Option<Handshake>, Refusal> {
        let handshakes = &self.handshakes;
        if handshakes.of(address) >= limits.handshakes_per_address {
            return handshakes.silent_of(address).map(Some).ok_or(Refusal::TooManyHandshakes);
        }
        if handshakes.count() >= limits.handshakes {
            return handshakes.least_worthy(address).map(Some).ok_or(Refusal::TooManyHandshakes);
        }
        Ok(None)
    }

    fn forget(&mut self, limits: &Limits, now: Instant) {
        if now < self.forgotten + FORGET {
            return;
        }
        self.forgotten = now;
        let (burst, per_second) = (limits.handshakes_burst_per_address, limits.handshakes_per_second_per_address);
        self.by_address.retain(|_, here| here.open > 0 || !here.dials.is_full(burst, per_second, now));
    }

    fn leave(&mut self, address: IpAddr) {
        self.open -= 1;
        if let Some(here) = self.by_address.get_mut(&address) {
            here.open -= 1;
        }
    }
}

pub struct Ticket {
    admission: Arc<Admission>,
    handshake: Handshake,
    displaced: oneshot::Receiver<()>,
}

impl Ticket {
    /// The first byte has come.
    pub fn spoke(&self) {
        self.admission.counts.lock().handshakes.spoke(self.handshake);
    }

    /// Returns when the handshake has to make room for another.
    pub async fn displaced(&mut self) {
        // What is told is that the other half is gone.
        let _ = (&mut self.displaced).await;
    }

    /// The handshake is done, well or not.
    pub fn established(&self) {
        self.admission.counts.lock().handshakes.end(self.handshake);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut counts = self.admission.counts.lock();
        counts.handshakes.end(self.handshake);
        counts.leave(self.handshake.address);
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

    fn entered(admission: &Arc<Admission>, last: u8, now: Instant) -> Ticket {
        admission.enter(address(last), now).expect("there is room")
    }

    /// Whether a ticket's handshake was told to end.
    fn is_displaced(ticket: &mut Ticket) -> bool {
        ticket.displaced.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn one_address_cannot_take_all_handshakes() {
        let (admission, now) = (admission(), Instant::now());
        let held = [entered(&admission, 1, now), entered(&admission, 1, now)];
        held.iter().for_each(Ticket::spoke);
        assert_eq!(admission.enter(address(1), now).err(), Some(Refusal::TooManyHandshakes));
        assert!(admission.enter(address(2), now).is_ok());
    }

    #[test]
    fn a_silent_handshake_makes_room_for_another_of_its_address_and_counts_as_a_connection_until_it_is_closed() {
        let (admission, now) = (admission(), Instant::now());
        let mut held = [entered(&admission, 1, now), entered(&admission, 1, now)];
        let _third = entered(&admission, 1, now);
        assert_eq!(held.each_mut().map(is_displaced), [true, false]);
        assert_eq!(admission.open(), 3);
        assert_eq!(admission.enter(address(1), now).err(), Some(Refusal::TooManyFromAddress));
    }

    #[test]
    fn when_all_places_are_taken_a_silent_handshake_makes_room_and_one_that_goes_on_does_not() {
        let (admission, now) = (admission(), Instant::now());
        let mut held = [1, 2, 3].map(|last| entered(&admission, last, now));
        held[0].spoke();
        let fourth = entered(&admission, 4, now);
        assert_eq!(held.each_mut().map(is_displaced), [false, true, false]);
        drop(held);
        let held = [5, 6].map(|last| entered(&admission, last, now));
        held.iter().chain([&fourth]).for_each(Ticket::spoke);
        assert_eq!(admission.enter(address(7), now).err(), Some(Refusal::TooManyHandshakes));
    }

    #[test]
    fn an_address_that_dials_too_often_makes_nobody_leave() {
        let limits = Limits { handshakes: 1, handshakes_burst_per_address: 1, ..Limits::default() };
        let (admission, now) = (Admission::new(limits), Instant::now());
        drop(entered(&admission, 1, now));
        let mut held = entered(&admission, 2, now);
        assert_eq!(admission.enter(address(1), now).err(), Some(Refusal::TooManyHandshakes));
        assert!(!is_displaced(&mut held));
    }

    #[test]
    fn one_address_cannot_take_all_connections() {
        let (admission, now) = (admission(), Instant::now());
        let mut held = Vec::new();
        for _ in 0..3 {
            let ticket = entered(&admission, 1, now);
            ticket.established();
            held.push(ticket);
        }
        assert_eq!(admission.enter(address(1), now).err(), Some(Refusal::TooManyFromAddress));
        let other = entered(&admission, 2, now);
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
