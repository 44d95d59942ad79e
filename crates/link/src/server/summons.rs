//! Lets the operator hear from a connected sidecar now: answers the call that the sidecar keeps waiting. No IO.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

struct Line {
    connection: u64,
    bell: Arc<Notify>,
}

/// The bells of all connected pods.
#[derive(Clone, Default)]
pub struct Summons {
    by_pod: Arc<Mutex<HashMap<String, Line>>>,
}

impl Summons {
    /// True when the pod's sidecar is connected; its heartbeat follows at once. A summons is not lost when the sidecar
    /// is in the middle of another call.
    pub fn summon(&self, pod_uid: &str) -> bool {
        let lines = self.lock();
        let found = lines.get(pod_uid);
        if let Some(line) = found {
            line.bell.notify_one();
        }
        found.is_some()
    }

    /// The newest connection of a pod is the one that is rung.
    pub(super) fn connect(&self, pod_uid: &str, connection: u64) -> Bell {
        let bell = Arc::new(Notify::new());
        self.lock().insert(pod_uid.to_owned(), Line { connection, bell: bell.clone() });
        Bell { summons: self.clone(), pod_uid: pod_uid.to_owned(), connection, bell }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Line>> {
        self.by_pod.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Bell {
    summons: Summons,
    pod_uid: String,
    connection: u64,
    bell: Arc<Notify>,
}

impl Bell {
    pub async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut lines = self.summons.lock();
        if lines.get(&self.pod_uid).is_some_and(|line| line.connection == self.connection) {
            lines.remove(&self.pod_uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_summons_reaches_the_newest_connection_even_when_nobody_waits_yet() {
        let summons = Summons::default();
        let old = summons.connect("uid", 1);
        let new = summons.connect("uid", 2);
        drop(old);
        assert!(summons.summon("uid"));
        new.rung().await;
        drop(new);
        assert!(!summons.summon("uid"));
    }
}
