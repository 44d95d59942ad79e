//! Keeps what this replica shows and trusts current. Runs on leader and followers alike; reads one Secret every few seconds and writes only its entry in the status of the ValkeyCA.

use super::own_leaf::{OwnLeaf, Unusable};
use super::{Settings, operators, secrets::Secrets};
use crate::client::Clients;
use crate::metrics::Metrics;
use api::certificates::names;
use api::names::certificate_file::CHAIN;
use futures::future::BoxFuture;
use jiff::Timestamp;
use link::{Current, IdentitySource};
use pki::Thumbprint;
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

#[derive(Default)]
pub(super) struct Shared {
    pub current: watch::Sender<Option<Current>>,
    pub facts: Mutex<Option<OwnFacts>>,
    refresh: Notify,
}

impl Shared {
    fn facts(&self) -> Option<OwnFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Own {
    /// Starts the task that keeps it current, for as long as the process lives.
    pub fn start(clients: &Clients, settings: Settings, metrics: Arc<Metrics>) -> Self {
        let own = Self { shared: Arc::new(Shared::default()) };
        let secrets = Secrets::new(clients.requests.clone(), metrics.clone());
        let leaf = OwnLeaf::new(settings.namespace.clone(), own.shared.clone());
        let renewal = LeafRenewal { clients: clients.clone(), settings, secrets, metrics, leaf, published: None };
        if renewal.settings.built_in {
            tokio::spawn(renewal.run());
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
        self.shared.facts()
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

struct LeafRenewal {
    clients: Clients,
    settings: Settings,
    secrets: Secrets,
    metrics: Arc<Metrics>,
    leaf: OwnLeaf,
    published: Option<OwnFacts>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Read(String),
    #[error(transparent)]
    Use(#[from] Unusable),
}

impl LeafRenewal {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.pass().await {
                tracing::warn!(%error, "the operator's own certificate stays as it is");
            }
            self.tell().await;
            let pause = if self.leaf.is_shown() { INTERVAL.mul_f64(0.8 + fastrand::f64() * 0.2) } else { EAGER };
            let _ = tokio::time::timeout(pause, self.leaf.shared.refresh.notified()).await;
        }
    }

    async fn pass(&mut self) -> Result<(), Error> {
        let now = Timestamp::now();
        let read = self.secrets.read(&self.settings.namespace, names::OPERATOR_SECRET).await;
        let outcome = match read {
            Ok(Some(seen)) if !seen.contents.get(CHAIN).is_empty() => {
                self.leaf.take(&seen.contents, now).map_err(Error::Use)
            }
            // Not made yet, or gone: the leader makes it again.
            Ok(_) => Ok(()),
            Err(why) => Err(Error::Read(why)),
        };
        self.leaf.renew(now)?;
        if let Some(at) = self.leaf.ends() {
            self.metrics.certificate_ends("leaf", at);
        }
        outcome
    }

    /// Only what is new, and only from a pod: a process outside has no name that the leader could look up.
    async fn tell(&mut self) {
        let facts = self.leaf.shared.facts();
        let (Some(replica), Some(facts)) = (&self.settings.replica, facts) else { return };
        match operators::tell(&self.clients, &self.settings.namespace, replica, &facts).await {
            Ok(true) => self.metrics.write("apply", "ValkeyCA/status"),
            Ok(false) => {}
            Err(error) if self.published.as_ref() != Some(&facts) => {
                tracing::warn!(%error, "what this replica trusts could not be published, trying again");
            }
            Err(_) => {}
        }
        self.published = Some(facts);
    }
}
