//! How the other parts speak to the boot guard. Pure data behind a lock, with a notification.

use parking_lot::Mutex;
use sidecar_rules::boot::Start;
use std::sync::Arc;
use tokio::sync::Notify;

#[derive(Clone, Debug, Default)]
pub struct Gate {
    requests: Arc<Mutex<Requests>>,
    changed: Arc<Notify>,
}

/// An order in force; dropping it takes it back.
#[derive(Debug)]
pub struct Ordered(Gate);

impl Drop for Ordered {
    fn drop(&mut self) {
        self.0.change(|requests| requests.ordered = None);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
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
        self.change(|requests| requests.conf_is_current = true);
    }

    /// The operator lets a waiting Valkey through, as long as the order is held: what was right now may be wrong later.
    #[must_use]
    pub fn order(&self, start: Start) -> Ordered {
        self.change(|requests| requests.ordered = Some(start));
        Ordered(self.clone())
    }

    pub fn dismiss(&self) {
        self.change(|requests| requests.dismissed = true);
    }

    pub(super) fn requests(&self) -> Requests {
        self.requests.lock().clone()
    }

    /// A new start, a new decision.
    pub(super) fn begin(&self) {
        self.change(|requests| *requests = Requests::default());
    }

    pub(super) fn conf_outdated(&self) {
        self.change(|requests| requests.conf_is_current = false);
    }

    pub(super) fn served(&self) {
        self.change(|requests| (requests.ordered, requests.dismissed) = (None, false));
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn change(&self, change: impl FnOnce(&mut Requests)) {
        let mut requests = self.requests.lock();
        let before = requests.clone();
        change(&mut requests);
        if *requests != before {
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_in_force_only_as_long_as_it_is_held() {
        let gate = Gate::default();
        let ordered = gate.order(Start::AsIs);
        assert_eq!(gate.requests().ordered, Some(Start::AsIs));
        drop(ordered);
        assert_eq!(gate.requests().ordered, None);
    }
}
