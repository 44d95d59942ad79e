//! Commands to single sidecars, over streams that are opened when the first command comes and stay until they are released.
//! Used by whatever runs an orchestration; works only while this process leads.

use super::roster::Roster;
use link::contract::{Fence, answer::Outcome, command::Action};
use link::server::{Leadership, Session, SessionError, Wakeups};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a connected sidecar may take to open its stream: a wakeup, a heartbeat and a call.
const OPENING: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("this process does not lead")]
    NotLeader,
    #[error("the sidecar of pod {pod_uid} is not connected")]
    NotConnected { pod_uid: String },
    #[error("the sidecar of pod {pod_uid} opened no stream within {OPENING:?}")]
    NoStream { pod_uid: String },
    #[error("the command to the sidecar of pod {pod_uid} was not answered")]
    NotAnswered { pod_uid: String, source: SessionError },
}

/// One pod's stream of commands, from the first wish for it until its release.
#[derive(Clone)]
struct PodStream {
    session: watch::Sender<Option<Arc<Session>>>,
}

pub struct CommandStreams {
    leadership: watch::Receiver<Leadership>,
    /// Known once the line is served.
    wakeups: OnceLock<Wakeups>,
    by_pod: Mutex<HashMap<String, PodStream>>,
}

impl CommandStreams {
    pub fn new(leadership: watch::Receiver<Leadership>) -> Self {
        Self { leadership, wakeups: OnceLock::new(), by_pod: Mutex::default() }
    }

    pub fn call_with(&self, wakeups: Wakeups) {
        // A process serves one line.
        let _ = self.wakeups.set(wakeups);
    }

    /// This leader's term, while it leads.
    pub fn epoch(&self) -> Option<u64> {
        match *self.leadership.borrow() {
            Leadership::Leader { epoch } => Some(epoch),
            Leadership::Follower { .. } => None,
        }
    }

    /// Sends one command and waits for its answer. Several may be under way, to one pod and to many.
    pub async fn command(
        &self,
        pod_uid: &str,
        fence: Fence,
        action: Action,
        deadline: Duration,
    ) -> Result<Outcome, CommandError> {
        let session = self.session(pod_uid).await?;
        let unanswered = |source| CommandError::NotAnswered { pod_uid: pod_uid.to_owned(), source };
        session.command(fence, action, deadline).await.map_err(unanswered)
    }

    /// As if a command to this pod were under way.
    #[cfg(test)]
    pub fn expect(&self, pod_uid: &str) {
        self.stream_of(pod_uid);
    }

    /// Ends the stream to a pod; commands under way on it are not waited for.
    pub fn release(&self, pod_uid: &str) {
        if let Some(stream) = self.by_pod().remove(pod_uid) {
            stream.session.send_replace(None);
        }
    }

    /// Whether the reply to a heartbeat says *stay connected*.
    pub fn wants(&self, pod_uid: &str) -> bool {
        self.by_pod().contains_key(pod_uid)
    }

    /// Serves one stream: offers it to commands until it is released or breaks.
    pub async fn host(&self, session: Session, roster: &Roster) {
        let pod_uid = session.sidecar().pod.pod_uid.clone();
        let Some(stream) = self.by_pod().get(&pod_uid).cloned() else {
            // Nobody wants it any more.
            return session.finish(String::new()).await;
        };
        let session = Arc::new(session);
        stream.session.send_replace(Some(session.clone()));
        let _offer = Offer { stream: &stream, session: &session, roster };
        roster.streaming(&pod_uid, true);
        let released = tokio::select! {
            () = session.broken() => false,
            () = withdrawn(&stream, &session) => true,
        };
        if released {
            session.finish(String::new()).await;
        }
    }

    async fn session(&self, pod_uid: &str) -> Result<Arc<Session>, CommandError> {
        if self.epoch().is_none() {
            return Err(CommandError::NotLeader);
        }
        let mut offered = self.stream_of(pod_uid).session.subscribe();
        if let Some(session) = offered.borrow_and_update().clone().filter(|session| session.is_open()) {
            return Ok(session);
        }
        if !self.wakeups.get().is_some_and(|wakeups| wakeups.wake(pod_uid)) {
            self.forget_unused(pod_uid);
            return Err(CommandError::NotConnected { pod_uid: pod_uid.to_owned() });
        }
        let mut leadership = self.leadership.clone();
        let opened = offered.wait_for(|session| session.as_ref().is_some_and(|session| session.is_open()));
        tokio::select! {
            opened = timeout(OPENING, opened) => {
                let session = opened.ok().and_then(Result::ok).and_then(|session| session.clone());
                session.ok_or_else(|| CommandError::NoStream { pod_uid: pod_uid.to_owned() })
            }
            _ = leadership.wait_for(|now| matches!(now, Leadership::Follower { .. })) => Err(CommandError::NotLeader),
        }
    }

    fn stream_of(&self, pod_uid: &str) -> PodStream {
        let new = || PodStream { session: watch::Sender::new(None) };
        self.by_pod().entry(pod_uid.to_owned()).or_insert_with(new).clone()
    }

    /// A pod that is not there is not waited for.
    fn forget_unused(&self, pod_uid: &str) {
        let mut by_pod = self.by_pod();
        if by_pod.get(pod_uid).is_some_and(|stream| stream.session.borrow().is_none()) {
            by_pod.remove(pod_uid);
        }
    }

    fn by_pod(&self) -> MutexGuard<'_, HashMap<String, PodStream>> {
        self.by_pod.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns when the stream is no longer the one on offer.
async fn withdrawn(stream: &PodStream, session: &Arc<Session>) {
    let mut offered = stream.session.subscribe();
    // `stream` holds the sender.
    let _ = offered.wait_for(|now| now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, session))).await;
}

/// A stream while commands can be sent on it; taken back however its task ends.
struct Offer<'a> {
    stream: &'a PodStream,
    session: &'a Arc<Session>,
    roster: &'a Roster,
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.roster.streaming(&self.session.sidecar().pod.pod_uid, false);
        self.stream.session.send_if_modified(|now| {
            let ours = now.as_ref().is_some_and(|now| Arc::ptr_eq(now, self.session));
            if ours {
                *now = None;
            }
            ours
        });
    }
}
