//! What this replica shows and trusts: a leaf in memory, made below the operator's intermediate, and the trusted roots. Runs on leader
//! and followers alike; reads one Secret every few seconds and writes only its entry in the status of the ValkeyCA.

use super::secrets::SecretSeen;
use super::{OWN_VALIDITY, Settings, operators, secrets::Secrets};
use crate::metrics::Metrics;
use api::certificates::names;
use api::names::certificate_file::{CHAIN, KEY, ROOTS};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use link::{Credentials, Current, IdentitySource};
use pki::{Authority, Bundle, Lifetime, Percent, SystemRandomness, Thumbprint, leaf_rotation};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How soon a changed trust bundle is noticed.
const INTERVAL: Duration = Duration::from_secs(10);
/// Until there is something to show, look more often: sidecars are waiting.
const EAGER: Duration = Duration::from_millis(500);

/// What others want to know of this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFacts {
    pub trusts: BTreeSet<Thumbprint>,
    /// The root above its leaf.
    pub presents: Option<Thumbprint>,
}

#[derive(Clone)]
pub struct Own {
    shared: Arc<Shared>,
}

struct Shared {
    current: watch::Sender<Option<Current>>,
    facts: Mutex<Option<OwnFacts>>,
    refresh: Notify,
}

impl Own {
    /// Starts the task that keeps it current, for as long as the process lives.
    pub fn start(client: Client, settings: Settings, metrics: Arc<Metrics>) -> Self {
        let shared = Shared { current: watch::channel(None).0, facts: Mutex::default(), refresh: Notify::new() };
        let own = Self { shared: Arc::new(shared) };
        let secrets = Secrets::new(client.clone(), metrics.clone());
        let keeper = Keeper { client, settings, secrets, metrics, shared: own.shared.clone(), held: None, told: None };
        if keeper.settings.built_in {
            tokio::spawn(keeper.run());
        }
        own
    }

    /// Returns once there is something to show: at the very first install after the leader made the operator's intermediate.
    pub async fn current(&self) -> Current {
        let mut current = self.shared.current.subscribe();
        loop {
            if let Some(current) = current.borrow_and_update().clone() {
                return current;
            }
            // The sender lives as long as `self`.
            let _ = current.changed().await;
        }
    }

    /// The stored intermediate or the trusted roots changed: look now.
    pub fn refresh(&self) {
        self.shared.refresh.notify_one();
    }

    pub(super) fn facts(&self) -> Option<OwnFacts> {
        self.shared.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl IdentitySource for Own {
    fn current(&self) -> BoxFuture<'_, Current> {
        Box::pin(Own::current(self))
    }

    fn problem(&self) -> Option<String> {
        let waiting = self.shared.current.borrow().is_none();
        waiting.then(|| "the operator's intermediate is not there yet: the leader makes it".to_owned())
    }
}

/// What the leaf is made from and when the next is due.
struct Held {
    intermediate: Authority,
    trusted: Bundle,
    lifetime: Lifetime,
    sender: watch::Sender<Arc<Credentials>>,
}

struct Keeper {
    client: Client,
    settings: Settings,
    secrets: Secrets,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
    held: Option<Held>,
    told: Option<OwnFacts>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Read(String),
    #[error("the operator's intermediate cannot be used: {0}")]
    Use(String),
}

impl Keeper {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "the operator's own certificate stays as it is");
            }
            self.tell().await;
            let pause = if self.held.is_some() { INTERVAL.mul_f64(0.8 + fastrand::f64() * 0.2) } else { EAGER };
            let _ = tokio::time::timeout(pause, self.shared.refresh.notified()).await;
        }
    }

    async fn look(&mut self) -> Result<(), Error> {
        let now = Timestamp::now();
        let read = self.secrets.read(&self.settings.namespace, names::OPERATOR_SECRET).await;
        let outcome = match read {
            Ok(Some(seen)) if !seen.contents.get(CHAIN).is_empty() => self.take(&seen, now),
            // Not made yet, or gone: the leader makes it again.
            Ok(_) => Ok(()),
            Err(why) => Err(Error::Read(why)),
        };
        let due = |held: &Held| leaf_rotation(held.lifetime, Percent::EARLIEST, now).is_due();
        if let Some(held) = self.held.as_ref().filter(|held| due(held)) {
            let (intermediate, trusted) = (held.intermediate.clone(), held.trusted.clone());
            self.show(intermediate, trusted, now)?;
        }
        outcome
    }

    /// Makes a leaf if the intermediate or the roots are others than before.
    fn take(&mut self, seen: &SecretSeen, now: Timestamp) -> Result<(), Error> {
        let unusable = |error: &dyn std::fmt::Display| Error::Use(error.to_string());
        let trusted = Bundle::from_pem(seen.contents.get(ROOTS)).map_err(|error| unusable(&error))?;
        let authority = Authority::from_pem(seen.contents.get(CHAIN), seen.contents.get(KEY));
        let authority = authority.map_err(|error| unusable(&error))?;
        let same = self.held.as_ref().is_some_and(|held| {
            held.intermediate.thumbprint() == authority.thumbprint()
                && held.trusted.thumbprints() == trusted.thumbprints()
        });
        if same { Ok(()) } else { self.show(authority, trusted, now) }
    }

    fn show(&mut self, intermediate: Authority, trusted: Bundle, now: Timestamp) -> Result<(), Error> {
        let unusable = |error: &dyn std::fmt::Display| Error::Use(error.to_string());
        let id = pki::identity::operator(&self.settings.namespace).map_err(|error| unusable(&error))?;
        let leaf = intermediate.leaf(&id, OWN_VALIDITY, now, &SystemRandomness).map_err(|error| unusable(&error))?;
        let credentials = Credentials::with_bundle(leaf.chain_pem.as_bytes(), leaf.key_pem.as_bytes(), trusted.clone());
        let credentials = Arc::new(credentials.map_err(|error| unusable(&error))?);
        tracing::info!(thumbprint = %leaf.thumbprint, expires = %leaf.not_after, "the operator has a new certificate");
        self.publish(&intermediate, &trusted, now);
        let sender = match self.held.take() {
            Some(held) => {
                held.sender.send_replace(credentials);
                held.sender
            }
            None => {
                let (sender, receiver) = watch::channel(credentials);
                self.shared.current.send_replace(Some(receiver));
                sender
            }
        };
        self.held = Some(Held { intermediate, trusted, lifetime: leaf.lifetime(), sender });
        Ok(())
    }

    fn publish(&self, intermediate: &Authority, trusted: &Bundle, now: Timestamp) {
        let presents = intermediate.root_among(trusted, now, &SystemRandomness).ok().flatten();
        let facts = OwnFacts { trusts: trusted.thumbprints().into_iter().collect(), presents };
        *self.shared.facts.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts);
    }

    /// Only what is new, and only from a pod: a process outside has no name that the leader could look up.
    async fn tell(&mut self) {
        let facts = self.shared.facts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (Some(replica), Some(facts)) = (&self.settings.replica, facts) else { return };
        match operators::tell(&self.client, &self.settings.namespace, replica, &facts).await {
            Ok(true) => self.metrics.write("apply", "ValkeyCA/status"),
            Ok(false) => {}
            Err(error) if self.told.as_ref() != Some(&facts) => {
                tracing::warn!(%error, "what this replica trusts could not be told, trying again");
            }
            Err(_) => {}
        }
        self.told = Some(facts);
    }
}
