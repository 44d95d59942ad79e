//! What is known of the Valkey process now, and what happened to it. Pure but for the channels.

use link::contract::Role;
use std::{net::SocketAddr, time::Instant};
use tokio::sync::{broadcast, watch};
use valkey::Info;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process that was not there before answers.
    Answers {
        run_id: String,
    },
    /// The process that answered is gone.
    Died {
        run_id: String,
    },
    RoleChanged {
        from: Role,
        to: Role,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Of the process that is there; `None` while there is none.
    pub run_id: Option<String>,
    pub role: Role,
    /// False until the first look.
    pub looked: bool,
    /// The process is there and does not answer at the moment.
    pub silent: bool,
    /// Since when it is there, or is not.
    pub since: Instant,
    /// Replicas that were attached to it when it last answered as a primary; kept when it is gone.
    pub attached: Vec<SocketAddr>,
}

impl Pulse {
    pub fn alive(&self) -> bool {
        self.run_id.is_some()
    }
}

/// How others see the vigil.
#[derive(Clone, Debug)]
pub struct Sight {
    pulse: watch::Sender<Pulse>,
    events: broadcast::Sender<Event>,
}

/// More than can happen between two turns of a listener.
const EVENTS: usize = 64;

impl Default for Sight {
    fn default() -> Self {
        let pulse = Pulse {
            run_id: None,
            role: Role::Unspecified,
            looked: false,
            silent: false,
            since: Instant::now(),
            attached: Vec::new(),
        };
        Self { pulse: watch::Sender::new(pulse), events: broadcast::Sender::new(EVENTS) }
    }
}

impl Sight {
    pub fn now(&self) -> Pulse {
        self.pulse.borrow().clone()
    }

    pub fn alive(&self) -> bool {
        self.pulse.borrow().alive()
    }

    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    pub fn pulse(&self) -> watch::Receiver<Pulse> {
        self.pulse.subscribe()
    }

    pub(super) fn answers(&self, run_id: &str) {
        if self.pulse.borrow().run_id.as_deref() == Some(run_id) {
            return;
        }
        self.died();
        self.pulse.send_modify(|pulse| {
            pulse.looked = true;
            pulse.run_id = Some(run_id.to_owned());
            pulse.since = Instant::now();
            pulse.attached.clear();
        });
        self.tell(Event::Answers { run_id: run_id.to_owned() });
    }

    pub(super) fn died(&self) {
        self.pulse.send_if_modified(|pulse| !std::mem::replace(&mut pulse.looked, true));
        let Some(run_id) = self.pulse.borrow().run_id.clone() else { return };
        self.pulse.send_modify(|pulse| {
            (pulse.run_id, pulse.role, pulse.silent, pulse.since) = (None, Role::Unspecified, false, Instant::now());
        });
        self.tell(Event::Died { run_id });
    }

    pub(super) fn plays(&self, role: Role) {
        let from = self.pulse.borrow().role;
        if from == role {
            return;
        }
        self.pulse.send_modify(|pulse| pulse.role = role);
        if from != Role::Unspecified {
            self.tell(Event::RoleChanged { from, to: role });
        }
    }

    /// Nobody is woken for it: it counts when the process is gone.
    pub(super) fn feeds(&self, attached: Vec<SocketAddr>) {
        self.pulse.send_if_modified(|pulse| {
            pulse.attached = attached;
            false
        });
    }

    pub(super) fn silent(&self, silent: bool) {
        self.pulse.send_if_modified(|pulse| {
            let changed = pulse.silent != silent && pulse.alive();
            pulse.silent = silent && pulse.alive();
            changed
        });
    }

    fn tell(&self, event: Event) {
        tracing::debug!(?event, "the vigil saw something");
        // Nobody listening is no loss: the pulse holds what is true now.
        let _ = self.events.send(event);
    }
}

/// Those that have taken over the data and follow.
pub(super) fn attached(info: &Info) -> Vec<SocketAddr> {
    let online = info.attached_replicas().into_iter().filter(|replica| replica.online);
    online.map(|replica| replica.address).collect()
}

pub(super) fn role_of(info: &Info) -> Option<Role> {
    match info.text("role")? {
        "master" => Some(Role::Primary),
        "slave" => Some(Role::Replica),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(receiver: &mut broadcast::Receiver<Event>) -> Vec<Event> {
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    fn died(run_id: &str) -> Event {
        Event::Died { run_id: run_id.into() }
    }

    fn answers(run_id: &str) -> Event {
        Event::Answers { run_id: run_id.into() }
    }

    #[test]
    fn a_process_that_is_replaced_unseen_has_died_all_the_same() {
        let sight = Sight::default();
        let mut events = sight.events();
        for run in ["a", "a", "b"] {
            sight.answers(run);
        }
        sight.died();
        sight.died();
        assert_eq!(told(&mut events), [answers("a"), died("a"), answers("b"), died("b")]);
        assert!(!sight.alive());
    }

    #[test]
    fn the_first_role_is_no_change_and_a_restart_forgets_it() {
        let sight = Sight::default();
        let mut events = sight.events();
        sight.answers("a");
        for role in [Role::Primary, Role::Primary, Role::Replica] {
            sight.plays(role);
        }
        sight.answers("b");
        sight.plays(Role::Primary);
        let changed = Event::RoleChanged { from: Role::Primary, to: Role::Replica };
        assert_eq!(told(&mut events), [answers("a"), changed, died("a"), answers("b")]);
    }

    #[test]
    fn who_followed_a_process_is_known_after_its_end_and_until_another_is_there() {
        let sight = Sight::default();
        sight.answers("a");
        let info = "role:master\nslave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0\n\
            slave1:ip=10.0.0.3,port=6379,state=send_bulk,offset=0,lag=0\n";
        sight.feeds(attached(&Info::parse(info)));
        sight.died();
        assert_eq!(sight.now().attached, ["10.0.0.2:6379".parse().unwrap()], "the other has nothing yet");
        sight.answers("b");
        assert!(sight.now().attached.is_empty());
    }

    #[test]
    fn only_a_process_that_is_there_can_be_silent() {
        let sight = Sight::default();
        sight.silent(true);
        assert!(!sight.now().silent);
        sight.answers("a");
        sight.silent(true);
        assert!(sight.now().silent);
        sight.died();
        assert!(!sight.now().silent);
    }
}
