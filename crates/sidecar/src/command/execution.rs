//! The execution of one command: its deadline, what was found, what was done, and how it ends. IO over short connections.

use super::Context;
use crate::{
    health::observation,
    line::{
        heartbeat,
        server_state::{self, ServerState},
    },
};
use link::contract::{Done, Failed, FullView, NodeState, Refused, RefusedReason, SlotsMoved, answer::Outcome};
use sidecar_rules::commands::Objection;
use std::{future::Future, time::Duration};
use tokio::time::{Instant, sleep};
use topology::ClusterNodes;
use valkey::{Address, CallError, Connection};

/// Kept back from the deadline, so that an answer still gets out.
const RESERVE: Duration = Duration::from_millis(100);
/// While a command goes on, its node is told and asked nothing else. What comes in portions makes them no longer than this.
const PORTION: Duration = Duration::from_secs(2);
/// So long after a portion others are still waited for: replicas, and the other end of a migration.
const FOR_OTHERS: Duration = Duration::from_secs(5);
/// For others, when what was long took longer than all that.
const AT_LEAST: Duration = Duration::from_millis(2_500);
const ONE_CONNECTION: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(15);

/// True when something was changed.
pub type Work = Result<bool, Stop>;

#[derive(Debug, thiserror::Error)]
pub enum Stop {
    #[error("{detail}")]
    Refused { reason: RefusedReason, detail: String },
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Late(String),
    #[error("{0}")]
    Call(#[from] CallError),
}

impl From<Objection> for Stop {
    fn from(objection: Objection) -> Self {
        match objection {
            Objection::Invalid(detail) => Self::invalid(detail),
            Objection::Unsafe(detail) => Self::unsafe_because(detail),
            Objection::NotNow(detail) => Self::Failed(detail),
        }
    }
}

impl Stop {
    pub fn unsafe_because(detail: impl Into<String>) -> Self {
        Self::Refused { reason: RefusedReason::Unsafe, detail: detail.into() }
    }

    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::Refused { reason: RefusedReason::Invalid, detail: detail.into() }
    }

    pub fn unknown(detail: impl Into<String>) -> Self {
        Self::Refused { reason: RefusedReason::UnknownCommand, detail: detail.into() }
    }
}

pub struct Execution<'a> {
    pub context: &'a Context,
    pub until: Instant,
    /// Nothing long is begun any more after this: others wait for what this node says.
    no_more_after: Instant,
    pub moved: Option<SlotsMoved>,
    found: String,
    did: Vec<String>,
}

impl<'a> Execution<'a> {
    pub fn new(context: &'a Context, deadline: Duration) -> Self {
        let now = Instant::now();
        let until = now + deadline.saturating_sub(RESERVE).max(deadline / 2);
        let no_more_after = now + PORTION.min(deadline / 2);
        Self { context, until, no_more_after, moved: None, found: String::new(), did: Vec::new() }
    }

    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// For what others have to do. The next command goes on with what they did not.
    pub fn patience(&self) -> Duration {
        let others = (self.no_more_after + FOR_OTHERS).saturating_duration_since(Instant::now());
        others.max(AT_LEAST).min(self.left())
    }

    /// Others are not waited for once more.
    pub fn others_are_late(&self) -> bool {
        Instant::now() + AT_LEAST > self.no_more_after + FOR_OTHERS
    }

    /// Whether something long may still be begun.
    pub fn has_time_for_more(&self) -> bool {
        Instant::now() < self.no_more_after
    }

    pub async fn connect(&self) -> Result<Connection, Stop> {
        let address = Address::Unix(self.context.socket.clone());
        Ok(Connection::open(&address, ONE_CONNECTION.min(self.left())).await?)
    }

    /// For calls that the server takes its time for.
    pub async fn connect_until_the_end(&self) -> Result<Connection, Stop> {
        let mut connection = self.connect().await?;
        connection.renew(self.left());
        Ok(connection)
    }

    /// What a command observes first is what it found.
    pub async fn observe(&mut self) -> Result<ServerState, Stop> {
        let server = server_state::read(&mut self.connect().await?).await?;
        if self.found.is_empty() {
            self.found = describe(&server);
        }
        Ok(server)
    }

    pub async fn nodes(&mut self) -> Result<ClusterNodes, Stop> {
        self.observe().await?.nodes.ok_or_else(|| Stop::Failed("this server is not in cluster mode".into()))
    }

    pub fn found(&mut self, text: impl Into<String>) {
        self.found = text.into();
    }

    pub fn did(&mut self, text: impl Into<String>) {
        self.did.push(text.into());
    }

    pub fn moved(&mut self, slots: u32, keys: u64) {
        let before = self.moved.unwrap_or_default();
        self.moved = Some(SlotsMoved { slots: before.slots + slots, keys: before.keys + keys });
    }

    /// Polls until it is so; `what` ends the sentence "it did not come to this in time: ".
    pub async fn until<F>(&self, what: &str, mut reached: impl FnMut(Connection) -> F) -> Result<(), Stop>
    where
        F: Future<Output = Result<bool, CallError>>,
    {
        while !self.left().is_zero() {
            let attempt = async { Ok::<bool, Stop>(reached(self.connect().await?).await?) };
            match attempt.await {
                Ok(true) => return Ok(()),
                // What failed because the time was over is late, not broken.
                Err(error) if !self.left().is_zero() => return Err(error),
                Ok(false) | Err(_) => sleep(POLL).await,
            }
        }
        Err(Stop::Late(format!("it did not come to this in time: {what}")))
    }

    pub async fn outcome(self, result: Work, view: Option<FullView>) -> Outcome {
        let node = match &result {
            Ok(_) => self.node_state().await,
            Err(_) => None,
        };
        // A call that got no answer in the last moment is late, not broken.
        let time_is_over = self.left().is_zero();
        let (found, did) = (self.found, self.did.join("; "));
        match result {
            Ok(changed) => Outcome::Done(Done { changed, found, did, node, view, moved: self.moved }),
            Err(Stop::Refused { reason, detail }) => {
                Outcome::Refused(Refused { reason: reason.into(), detail, highest_epoch: 0 })
            }
            Err(stop) => {
                let deadline_passed = time_is_over || matches!(stop, Stop::Late(_));
                Outcome::Failed(Failed { found, did, detail: stop.to_string(), deadline_passed })
            }
        }
    }

    async fn node_state(&self) -> Option<NodeState> {
        let deadline = ONE_CONNECTION.min(self.left().max(RESERVE / 2));
        let observed = observation::ask_server(&self.context.socket, deadline).await;
        let condition = heartbeat::condition(self.context.shared.judge(&observed).kind);
        let address = Address::Unix(self.context.socket.clone());
        let mut connection = Connection::open(&address, deadline).await.ok()?;
        Some(server_state::read(&mut connection).await.ok()?.node_state(condition))
    }
}

fn describe(server: &ServerState) -> String {
    let Some(nodes) = &server.nodes else { return "a server outside of cluster mode".into() };
    let Some(node) = nodes.myself() else { return "a server that does not list itself".into() };
    let slots = node.slots.count();
    let others = nodes.0.len().saturating_sub(1);
    match &node.primary {
        Some(primary) => format!("a replica of {primary}, {others} other nodes known"),
        None => format!("a primary with {slots} slots, {others} other nodes known"),
    }
}
