//! Wakes a connected sidecar so that its heartbeat comes now: answers the call that the sidecar keeps waiting. No IO.

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::Notify;

struct Sleeper {
    connection: u64,
    notify: Arc<Notify>,
}

/// Wakes the sidecars of connected pods.
#[derive(Clone, Default)]
pub struct Wakeups {
    by_pod: Arc<Mutex<HashMap<String, Sleeper>>>,
}

impl Wakeups {
    /// True when the pod's sidecar is connected; its heartbeat follows immediately. A wakeup is not lost when the sidecar is in the
    /// middle of another call.
    pub fn wake(&self, pod_uid: &str) -> bool {
        let sleepers = self.by_pod.lock();
        let found = sleepers.get(pod_uid);
        if let Some(sleeper) = found {
            sleeper.notify.notify_one();
        }
        found.is_some()
    }

    /// Only the newest connection of a pod is woken.
    pub(super) fn connect(&self, pod_uid: &str, connection: u64) -> Wakeup {
        let notify = Arc::new(Notify::new());
        self.by_pod.lock().insert(pod_uid.to_owned(), Sleeper { connection, notify: notify.clone() });
        Wakeup { wakeups: self.clone(), pod_uid: pod_uid.to_owned(), connection, notify }
    }
}

pub(super) struct Wakeup {
    wakeups: Wakeups,
    pod_uid: String,
    connection: u64,
    notify: Arc<Notify>,
}

impl Wakeup {
    pub async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        let mut sleepers = self.wakeups.by_pod.lock();
        if sleepers.get(&self.pod_uid).is_some_and(|sleeper| sleeper.connection == self.connection) {
            sleepers.remove(&self.pod_uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wakeup_reaches_the_newest_connection_even_before_its_call_waits() {
        let wakeups = Wakeups::default();
        let old = wakeups.connect("uid", 1);
        let new = wakeups.connect("uid", 2);
        drop(old);
        assert!(wakeups.wake("uid"));
        new.woken().await;
        drop(new);
        assert!(!wakeups.wake("uid"));
    }
}
