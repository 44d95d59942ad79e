//! A small cluster-aware client: commands go to the owner of their slot, redirects are followed, connections are kept. IO. Every
//! command is bounded by one timeout; `refresh` keeps the map current.

use crate::{failure::Failure, redirect::Redirect, slot_map::SlotMap};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use valkey::{Address, CallError, Connection, Reply};

const REDIRECTS: usize = 8;

pub struct Client {
    pub(crate) seeds: Vec<String>,
    timeout: Duration,
    map: Mutex<SlotMap>,
    idle: Mutex<HashMap<SocketAddr, Vec<Connection>>>,
    /// Told when an answer shows that the map is out of date.
    pub(crate) outdated: Notify,
}

/// The answer to the last command and who gave it.
pub struct Answer {
    pub reply: Reply,
    pub node: SocketAddr,
}

/// What is said over one connection. Only the first may be redirected.
#[derive(Clone, Copy)]
pub(crate) struct Commands<'a> {
    pub first: &'a [&'a str],
    /// Told when the first is done, whatever becomes of the one after it.
    pub answered: &'a (dyn Fn() + Send + Sync),
    pub then: Option<&'a [&'a str]>,
}

impl<'a> Commands<'a> {
    fn only(first: &'a [&'a str]) -> Self {
        Self { first, answered: &|| (), then: None }
    }
}

enum Next {
    Done(Answer),
    Go { to: SocketAddr, asking: bool },
}

impl Client {
    /// `seeds` are `host:port` of any nodes, or of a Service in front of them. Nothing is connected before the first `refresh`.
    pub fn new(seeds: Vec<String>, timeout: Duration) -> Self {
        Self { seeds, timeout, map: Mutex::default(), idle: Mutex::default(), outdated: Notify::new() }
    }

    pub(crate) fn map(&self) -> MutexGuard<'_, SlotMap> {
        self.map.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sends the command to the owner of the slot.
    pub async fn send(&self, slot: u16, command: &[&str]) -> Result<Answer, Failure> {
        self.send_within(slot, Commands::only(command), self.timeout).await
    }

    pub(crate) async fn send_within(
        &self,
        slot: u16,
        commands: Commands<'_>,
        within: Duration,
    ) -> Result<Answer, Failure> {
        let until = Instant::now() + within;
        let Some(mut to) = self.map().owner(slot) else {
            self.outdated.notify_one();
            return Err(Failure::NoOwner { slot });
        };
        let mut asking = false;
        for _ in 0..REDIRECTS {
            match self.hop(to, asking, commands, until).await? {
                Next::Done(answer) => return Ok(answer),
                Next::Go { to: next, asking: once } => (to, asking) = (next, once),
            }
        }
        Err(Failure::RedirectLoop { slot, limit: REDIRECTS })
    }

    async fn hop(&self, to: SocketAddr, asking: bool, commands: Commands<'_>, until: Instant) -> Result<Next, Failure> {
        let result = self.converse(to, asking, commands, until).await;
        let error = match result {
            Ok(reply) => return Ok(Next::Done(Answer { reply, node: to })),
            Err(error) => error,
        };
        let redirect = error.refusal().and_then(|refusal| Redirect::parse(&refusal.message));
        let Some(redirect) = redirect else {
            self.outdated.notify_one();
            return Err(Failure::of_call(to, error));
        };
        let Some(target) = self.resolve(&redirect, to).await else { return Err(Failure::of_call(to, error)) };
        if !redirect.once {
            self.map().moved(redirect.slot, target);
            self.outdated.notify_one();
        }
        Ok(Next::Go { to: target, asking: redirect.once })
    }

    async fn resolve(&self, redirect: &Redirect, answered: SocketAddr) -> Option<SocketAddr> {
        let Some(host) = &redirect.host else { return Some(SocketAddr::new(answered.ip(), redirect.port)) };
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Some(SocketAddr::new(ip, redirect.port));
        }
        let known = self.map().address_of(host);
        match known {
            Some(address) => Some(address),
            None => tokio::net::lookup_host((host.as_str(), redirect.port)).await.ok()?.next(),
        }
    }

    async fn converse(
        &self,
        node: SocketAddr,
        asking: bool,
        commands: Commands<'_>,
        until: Instant,
    ) -> Result<Reply, CallError> {
        let mut connection = self.connection(node, until).await?;
        let result = in_turn(&mut connection, asking, commands).await;
        match &result {
            Ok(_) | Err(CallError::Refused(_)) => self.keep(node, connection),
            // The others to this node are most likely dead as well.
            Err(_) => drop(self.idle().remove(&node)),
        }
        result
    }

    /// One command to one node, whatever it owns.
    pub(crate) async fn ask(&self, node: SocketAddr, command: &[&str], within: Duration) -> Result<Reply, CallError> {
        self.converse(node, false, Commands::only(command), Instant::now() + within).await
    }

    async fn connection(&self, node: SocketAddr, until: Instant) -> Result<Connection, CallError> {
        let left = until.saturating_duration_since(Instant::now());
        let idle = self.idle().get_mut(&node).and_then(Vec::pop);
        match idle {
            Some(mut connection) => {
                connection.renew(left);
                Ok(connection)
            }
            None => Connection::open(&Address::Tcp(node), left).await,
        }
    }

    fn keep(&self, node: SocketAddr, connection: Connection) {
        self.idle().entry(node).or_default().push(connection);
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<SocketAddr, Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

async fn in_turn(connection: &mut Connection, asking: bool, commands: Commands<'_>) -> Result<Reply, CallError> {
    if asking {
        connection.call(&["ASKING"]).await?;
    }
    let reply = connection.call(commands.first).await?;
    (commands.answered)();
    match commands.then {
        Some(command) => connection.call(command).await,
        None => Ok(reply),
    }
}
