//! What is known of the Valkey process now, and what happened to it. Pure but for the channels.

use std::{net::SocketAddr, time::Instant};
use tokio::sync::{broadcast, watch};
use topology::{Position, Role};
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
pub struct ProcessState {
    /// Of the process that is there; `None` while there is none.
    pub run_id: Option<String>,
    /// `None` while it is not known.
    pub role: Option<Role>,
    /// False until it was checked for the first time.
    pub checked: bool,
    /// The process is there and does not answer at the moment.
    pub silent: bool,
    /// Since when it is there, or is not.
    pub since: Instant,
}

impl ProcessState {
    pub fn alive(&self) -> bool {
        self.run_id.is_some()
    }
}

/// How the other parts follow the process; the monitor writes it.
#[derive(Clone, Debug)]
pub struct ProcessWatch {
    state: watch::Sender<ProcessState>,
    events: broadcast::Sender<Event>,
    attached: watch::Sender<Vec<SocketAddr>>,
    position: watch::Sender<Option<Position>>,
    orphaned: watch::Sender<bool>,
}

/// A primary sends something every second.
const SILENT_SECONDS: u64 = 3;
/// More than can happen between two turns of a listener.
const EVENTS: usize = 64;

impl Default for ProcessWatch {
    fn default() -> Self {
        let state = ProcessState { run_id: None, role: None, checked: false, silent: false, since: Instant::now() };
        Self {
            state: watch::Sender::new(state),
            events: broadcast::Sender::new(EVENTS),
            attached: watch::Sender::default(),
            position: watch::Sender::default(),
            orphaned: watch::Sender::default(),
        }
    }
}

impl ProcessWatch {
    pub fn now(&self) -> ProcessState {
        self.state.borrow().clone()
    }

    pub fn alive(&self) -> bool {
        self.state.borrow().alive()
    }

    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Replicas that were attached to it when it last answered as a primary; kept when it is gone.
    pub fn attached(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.attached.subscribe()
    }

    /// How far it had come when it last answered as a primary; kept when it is gone.
    pub fn position(&self) -> Option<Position> {
        self.position.borrow().clone()
    }

    /// It is a replica that hears nothing of its primary.
    pub fn orphaned(&self) -> watch::Receiver<bool> {
        self.orphaned.subscribe()
    }

    pub fn states(&self) -> watch::Receiver<ProcessState> {
        self.state.subscribe()
    }

    pub(super) fn answers(&self, run_id: &str) {
        if self.state.borrow().run_id.as_deref() == Some(run_id) {
            return;
        }
        self.died();
        self.state.send_modify(|state| {
            state.checked = true;
            state.run_id = Some(run_id.to_owned());
            state.since = Instant::now();
        });
        self.attached.send_replace(Vec::new());
        self.position.send_replace(None);
        self.send(Event::Answers { run_id: run_id.to_owned() });
    }

    pub(super) fn died(&self) {
        self.state.send_if_modified(|state| !std::mem::replace(&mut state.checked, true));
        let Some(run_id) = self.state.borrow().run_id.clone() else { return };
        self.set_orphaned(false);
        self.state.send_modify(|state| {
            (state.run_id, state.role, state.silent, state.since) = (None, None, false, Instant::now());
        });
        self.send(Event::Died { run_id });
    }

    pub(super) fn set_role(&self, role: Role) {
        let from = self.state.borrow().role;
        if from == Some(role) {
            return;
        }
        self.state.send_modify(|state| state.role = Some(role));
        if let Some(from) = from {
            self.send(Event::RoleChanged { from, to: role });
        }
    }

    pub(super) fn set_attached(&self, attached: Vec<SocketAddr>) {
        self.attached.send_if_modified(|now| std::mem::replace(now, attached) != *now);
    }

    pub(super) fn set_position(&self, position: Option<Position>) {
        self.position.send_replace(position);
    }

    pub(super) fn set_orphaned(&self, orphaned: bool) {
        self.orphaned.send_if_modified(|now| std::mem::replace(now, orphaned) != orphaned);
    }

    pub(super) fn silent(&self, silent: bool) {
        self.state.send_if_modified(|state| {
            let changed = state.silent != silent && state.alive();
            state.silent = silent && state.alive();
            changed
        });
    }

    fn send(&self, event: Event) {
        tracing::debug!(?event, "Valkey's process changed");
        // Without a listener nothing is lost: the state holds what is true now.
        let _ = self.events.send(event);
    }
}

/// Replicas that have copied the data and follow.
pub(super) fn attached(info: &Info) -> Vec<SocketAddr> {
    let online = info.attached_replicas().into_iter().filter(|replica| replica.online);
    online.map(|replica| replica.address).collect()
}

/// A link to a machine that lost its power, or to a process that is frozen, stays up for a minute.
pub(super) fn hears_its_primary(info: &Info) -> bool {
    let silent = info.number("master_last_io_seconds_ago").is_some_and(|seconds: u64| seconds >= SILENT_SECONDS);
    info.text("master_link_status") == Some("up") && !silent
}

/// How far a primary is in its history.
pub(super) fn position(info: &Info) -> Option<Position> {
    let (replication_id, offset) = (info.text("master_replid")?.to_owned(), info.number("master_repl_offset")?);
    Some(Position { replication_id, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(receiver: &mut broadcast::Receiver<Event>) -> Vec<Event> {
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
        let process = ProcessWatch::default();
        let mut events = process.events();
        for run in ["a", "a", "b"] {
            process.answers(run);
        }
        process.died();
        process.died();
        assert_eq!(received(&mut events), [answers("a"), died("a"), answers("b"), died("b")]);
        assert!(!process.alive());
    }

    #[test]
    fn the_first_role_is_no_change_and_a_restart_forgets_it() {
        let process = ProcessWatch::default();
        let mut events = process.events();
        process.answers("a");
        for role in [Role::Primary, Role::Primary, Role::Replica] {
            process.set_role(role);
        }
        process.answers("b");
        process.set_role(Role::Primary);
        let changed = Event::RoleChanged { from: Role::Primary, to: Role::Replica };
        assert_eq!(received(&mut events), [answers("a"), changed, died("a"), answers("b")]);
    }

    #[test]
    fn attached_replicas_are_known_after_the_end_of_a_process_and_until_another_is_there() {
        let process = ProcessWatch::default();
        process.answers("a");
        let info = "role:master\nslave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0\n\
            slave1:ip=10.0.0.3,port=6379,state=send_bulk,offset=0,lag=0\n";
        process.set_attached(attached(&Info::parse(info)));
        process.died();
        assert_eq!(*process.attached().borrow(), ["10.0.0.2:6379".parse().unwrap()], "the other has nothing yet");
        process.answers("b");
        assert!(process.attached().borrow().is_empty());
    }

    #[test]
    fn how_far_a_primary_had_come_is_known_after_its_end_and_until_another_process_is_there() {
        let process = ProcessWatch::default();
        process.answers("a");
        process.set_position(position(&Info::parse("role:master\nmaster_replid:h\nmaster_repl_offset:42\n")));
        process.died();
        assert_eq!(process.position(), Some(Position { replication_id: "h".into(), offset: 42 }));
        process.answers("b");
        assert_eq!(process.position(), None);
    }

    #[test]
    fn a_link_that_is_up_and_silent_is_no_word_of_the_primary() {
        let hears =
            |link: &str, ago: &str| hears_its_primary(&Info::parse(&format!("master_link_status:{link}\n{ago}\n")));
        assert!(hears("up", "master_last_io_seconds_ago:2") && !hears("up", "master_last_io_seconds_ago:3"));
        assert!(!hears("down", "master_last_io_seconds_ago:-1") && hears("up", ""));
    }

    #[test]
    fn only_a_process_that_is_there_can_be_silent() {
        let process = ProcessWatch::default();
        process.silent(true);
        assert!(!process.now().silent);
        process.answers("a");
        process.silent(true);
        assert!(process.now().silent);
        process.died();
        assert!(!process.now().silent);
    }
}
