//! What this sidecar remembers of moves of slots, and who may move some now. In memory: after a restart nothing is known of what went on
//! before, and keys are compared instead. One lock, never held over an await, and a turn that is.

use parking_lot::Mutex as Lock;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::timeout,
};
use topology::NodeId;
use valkey::Info;

/// A slot that this sidecar opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub target: NodeId,
    /// Of the source, as `history` has it.
    pub history: String,
    /// The target had no key of it before: whatever it has since, it has from that process or from clients that were sent there.
    pub empty_there: bool,
    /// Of a MIGRATE that was given up, or that nobody waited for: more may still come to the target.
    pub to_cut: bool,
    /// Keys that were here after such a MIGRATE: the target may take them in later.
    pub unanswered: BTreeSet<Vec<u8>>,
}

/// It changes with the process and when this node was a replica in between.
pub fn history(info: &Info) -> String {
    ["run_id", "master_replid"].map(|name| info.text(name).unwrap_or_default()).join(" ")
}

#[derive(Clone, Debug, Default)]
pub struct SlotMoves {
    opened: Arc<Lock<BTreeMap<u16, Opened>>>,
    /// SETSLOT takes a second target without a word, and a node that leaves must not take slots.
    turn: Arc<Mutex<()>>,
    /// Hand-overs that wait for the turn, or have it.
    ending: Arc<AtomicUsize>,
}

/// While it lives, no move goes on; unless one did not end in time.
pub struct Stopped {
    ending: Arc<AtomicUsize>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.ending.fetch_sub(1, Ordering::SeqCst);
    }
}

impl SlotMoves {
    /// `None` when another one does not end within that time.
    pub async fn turn(&self, patience: Duration) -> Option<OwnedMutexGuard<()>> {
        timeout(patience, self.turn.clone().lock_owned()).await.ok()
    }

    /// Asks what goes on to end at the next good moment, and waits for it.
    pub async fn stop(&self, patience: Duration) -> Stopped {
        self.ending.fetch_add(1, Ordering::SeqCst);
        let mut stopped = Stopped { ending: self.ending.clone(), _turn: None };
        stopped._turn = self.turn(patience).await;
        stopped
    }

    pub fn are_to_end(&self) -> bool {
        self.ending.load(Ordering::SeqCst) > 0
    }

    pub fn open(&self, slot: u16, opened: Opened) {
        self.opened.lock().insert(slot, opened);
    }

    pub fn close(&self, slot: u16) {
        self.opened.lock().remove(&slot);
    }

    /// What is known of a slot that stands open to this target, as long as the same process of Valkey has been its primary.
    pub fn opened(&self, slot: u16, target: &NodeId, history: &str) -> Option<Opened> {
        let opened = self.opened.lock().get(&slot).cloned();
        opened.filter(|opened| opened.target == *target && opened.history == history)
    }

    pub fn unanswered(&self, slot: u16, keys: &[Vec<u8>]) {
        if let Some(opened) = self.opened.lock().get_mut(&slot) {
            opened.to_cut = true;
            opened.unanswered.extend(keys.iter().cloned());
        }
    }

    pub fn answered(&self, slot: u16) {
        if let Some(opened) = self.opened.lock().get_mut(&slot) {
            opened.to_cut = false;
            opened.unanswered.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hand_over_ends_what_goes_on_and_does_not_wait_for_ever() {
        let moves = SlotMoves::default();
        let turn = moves.turn(Duration::ZERO).await;
        assert!(turn.is_some() && moves.turn(Duration::from_secs(1)).await.is_none());
        let stopped = moves.stop(Duration::from_secs(2)).await;
        assert!(moves.are_to_end(), "it goes on without the turn");
        drop((turn, stopped));
        assert!(!moves.are_to_end() && moves.turn(Duration::ZERO).await.is_some());
    }

    #[test]
    fn what_another_process_or_target_was_given_is_not_known() {
        let moves = SlotMoves::default();
        let (target, history, unanswered) = (NodeId::new("t"), "r".to_owned(), BTreeSet::new());
        moves.open(5, Opened { target: target.clone(), history, empty_there: true, to_cut: false, unanswered });
        moves.unanswered(5, &[b"k".to_vec()]);
        assert_eq!(moves.opened(5, &target, "r").map(|opened| opened.unanswered.len()), Some(1));
        assert!(moves.opened(5, &target, "s").is_none() && moves.opened(5, &"u".into(), "r").is_none());
        assert!(moves.opened(5, &target, "r").is_some_and(|opened| opened.to_cut));
        moves.answered(5);
        assert!(moves.opened(5, &target, "r").is_some_and(|opened| !opened.to_cut && opened.unanswered.is_empty()));
        moves.close(5);
        assert!(moves.opened(5, &target, "r").is_none());
    }
}
