//! How the other parts speak to the keeper of the gate. Pure data behind a lock and a bell.

use link::contract::Start;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Clone, Debug, Default)]
pub struct Gate {
    wishes: Arc<Mutex<Wishes>>,
    bell: Arc<Notify>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// The rendered configuration is of the time since Valkey ended.
    pub conf_is_current: bool,
    pub ordered: Option<Start>,
    /// The pod stops: a Valkey that still waits shall end instead of starting. As the first process of its container it
    /// does not hear SIGTERM while it waits.
    pub dismissed: bool,
}

impl Gate {
    /// The configuration has been rendered again.
    pub fn conf_rendered(&self) {
        self.change(|wishes| wishes.conf_is_current = true);
    }

    /// The operator lets a waiting Valkey through.
    pub fn order(&self, start: Start) {
        self.change(|wishes| wishes.ordered = Some(start));
    }

    pub fn dismiss(&self) {
        self.change(|wishes| wishes.dismissed = true);
    }

    pub(super) fn wishes(&self) -> Wishes {
        self.lock().clone()
    }

    /// A new start, a new decision.
    pub(super) fn begin(&self) {
        self.change(|wishes| *wishes = Wishes::default());
    }

    pub(super) fn conf_outdated(&self) {
        self.change(|wishes| wishes.conf_is_current = false);
    }

    pub(super) fn obeyed(&self) {
        self.change(|wishes| (wishes.ordered, wishes.dismissed) = (None, false));
    }

    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    fn change(&self, change: impl FnOnce(&mut Wishes)) {
        let mut wishes = self.lock();
        let before = wishes.clone();
        change(&mut wishes);
        if *wishes != before {
            self.bell.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
