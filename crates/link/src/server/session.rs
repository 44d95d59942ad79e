//! The operator's handle on one open Orchestrate stream: sends a command and waits for its answer. IO.

use super::Sidecar;
use crate::contract::{
    Answer, Command, Fence, JobDone, OperatorMessage, SidecarMessage, answer::Outcome, command::Action,
    operator_message, sidecar_message,
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tonic::{Status, Streaming};

/// Commands that were sent and not answered; `None` once the stream is lost.
type Pending = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Outcome>>>>>;

/// What the answer may take beyond the command's own deadline to come back.
const ON_THE_WAY: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("the sidecar's stream ended; what it did with the command is not known")]
    Lost,
    #[error("no answer came in time; what was done is not known")]
    NoAnswer,
}

pub struct Session {
    sidecar: Sidecar,
    highest_epoch: u64,
    outgoing: mpsc::Sender<Result<OperatorMessage, Status>>,
    pending: Pending,
    next: AtomicU64,
    traceparent: String,
}

impl Session {
    pub(super) fn new(
        sidecar: Sidecar,
        highest_epoch: u64,
        outgoing: mpsc::Sender<Result<OperatorMessage, Status>>,
    ) -> (Self, Reader) {
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let reader = Reader { pending: pending.clone() };
        (
            Self { sidecar, highest_epoch, outgoing, pending, next: AtomicU64::new(1), traceparent: String::new() },
            reader,
        )
    }

    pub fn sidecar(&self) -> &Sidecar {
        &self.sidecar
    }

    /// The highest epoch this sidecar had seen when it opened the stream.
    pub fn highest_epoch(&self) -> u64 {
        self.highest_epoch
    }

    /// Gives the commands that follow the orchestration's W3C trace context.
    pub fn trace(&mut self, traceparent: String) {
        self.traceparent = traceparent;
    }

    /// Sends one command; several may be under way at once.
    pub async fn command(&self, fence: Fence, action: Action, deadline: Duration) -> Result<Outcome, SessionError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        self.pending.lock().as_mut().ok_or(SessionError::Lost)?.insert(id, answered);
        let milliseconds = u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX).max(1);
        let command = Command {
            id,
            fence: Some(fence),
            deadline_milliseconds: milliseconds,
            traceparent: self.traceparent.clone(),
            action: Some(action),
        };
        let result = self.send_and_wait(command, answer, deadline + ON_THE_WAY).await;
        if let Some(pending) = self.pending.lock().as_mut() {
            pending.remove(&id);
        }
        result
    }

    async fn send_and_wait(
        &self,
        command: Command,
        answer: oneshot::Receiver<Outcome>,
        within: Duration,
    ) -> Result<Outcome, SessionError> {
        let exchange = async {
            self.send(operator_message::Message::Command(command)).await?;
            answer.await.map_err(|_| SessionError::Lost)
        };
        timeout(within, exchange).await.map_err(|_| SessionError::NoAnswer)?
    }

    /// Whether answers can still come.
    pub fn is_open(&self) -> bool {
        !self.outgoing.is_closed() && self.pending.lock().is_some()
    }

    /// Returns when the stream has broken.
    pub async fn broken(&self) {
        self.outgoing.closed().await;
    }

    /// Tells the sidecar that the job is done. The stream ends when `Operator::orchestrate` returns.
    pub async fn finish(&self, orchestration_id: String) {
        // A sidecar that is gone learns the same from the end of its stream.
        let _ = self.send(operator_message::Message::JobDone(JobDone { orchestration_id })).await;
    }

    async fn send(&self, message: operator_message::Message) -> Result<(), SessionError> {
        let message = OperatorMessage { message: Some(message) };
        self.outgoing.send(Ok(message)).await.map_err(|_| SessionError::Lost)
    }
}

/// Hands the sidecar's answers to the commands that wait for them.
pub(super) struct Reader {
    pending: Pending,
}

impl Reader {
    /// Returns when the sidecar's half of the stream has ended.
    pub async fn read(self, mut incoming: Streaming<SidecarMessage>) {
        while let Ok(Some(message)) = incoming.message().await {
            if let Some(sidecar_message::Message::Answer(answer)) = message.message {
                self.deliver(answer);
            }
        }
    }

    fn deliver(&self, answer: Answer) {
        let waiting = self.pending.lock().as_mut().and_then(|pending| pending.remove(&answer.command_id));
        if let (Some(waiting), Some(outcome)) = (waiting, answer.outcome) {
            // The caller may have given up.
            let _ = waiting.send(outcome);
        }
    }
}

impl Drop for Reader {
    /// However reading ends, no command waits for an answer any longer.
    fn drop(&mut self) {
        *self.pending.lock() = None;
    }
}
