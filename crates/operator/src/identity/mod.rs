//! Identities: the operator makes and keeps the root, its own certificate, and those of every cluster's sidecars. IO; what to do is
//! decided in the crate `certificates`, how certificates are made in `pki`. `run` starts [`Own`] on every replica and
//! [`Identities::lead`] on the leader; passes over a cluster observe its certificates here, and steps of its plan are carried out here.

mod authority;
mod cluster;
mod cluster_reading;
mod cluster_writing;
mod contents;
mod in_force;
mod memory;
#[cfg(test)]
mod nowhere;
mod operators;
mod own;
mod own_intermediate;
mod own_leaf;
mod parties;
mod root;
mod root_reading;
mod root_writing;
mod secrets;
mod unused;
mod wanted_root;

pub use own::Own;
pub use parties::{NoParties, Parties, SidecarParty};

use crate::client::Clients;
use crate::metrics::Metrics;
use crate::runtime::is_namespace_terminating;
use api::stored::Stored;
use in_force::InForce;
use kube::core::object::HasStatus;
use memory::Memories;
use secrets::Secrets;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// How long an intermediate is valid.
const INTERMEDIATE_VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long before its end the operator's own is replaced.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long the leaf of an operator replica is valid. It exists in memory only.
const OWN_VALIDITY: Duration = Duration::from_secs(6 * 60 * 60);

/// Where this process is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The operator's namespace.
    pub namespace: String,
    /// The pod this process runs in; None outside of Kubernetes.
    pub replica: Option<String>,
    /// Whether the built-in authority is used. If not, certificates come from elsewhere and nothing is made here.
    pub built_in: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what} could not be read: {detail}")]
    Read { what: String, detail: String },
    #[error("{what} could not be written: {detail}")]
    Write { what: String, detail: String, terminating: bool },
    #[error("a certificate could not be made: {0}")]
    Issue(String),
    #[error("{0}")]
    Name(#[from] pki::InvalidLabel),
}

impl Error {
    fn write(what: impl Into<String>, error: &kube::Error) -> Self {
        Self::Write { what: what.into(), detail: detail(error), terminating: is_namespace_terminating(error) }
    }

    fn read(what: impl Into<String>, error: &kube::Error) -> Self {
        Self::Read { what: what.into(), detail: detail(error) }
    }

    fn unless_readable<K: HasStatus>(what: impl Into<String>, found: Stored<K>) -> Result<K, Self> {
        found.0.map_err(|unreadable| Self::Read { what: what.into(), detail: unreadable.error })
    }

    /// The namespace is being deleted and takes everything with it.
    pub fn is_namespace_terminating(&self) -> bool {
        matches!(self, Self::Write { terminating: true, .. })
    }

    fn issue(error: impl std::fmt::Display) -> Self {
        Self::Issue(error.to_string())
    }
}

/// The API server's own words.
fn detail(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The leader's part.
pub struct Identities {
    clients: Clients,
    settings: Settings,
    secrets: Secrets,
    metrics: Arc<Metrics>,
    parties: Arc<dyn Parties>,
    own: Own,
    /// The root that signs, and whom to trust; None until it was made or found.
    in_force: watch::Sender<Option<Arc<InForce>>>,
    /// Why there is none, for clusters that wait.
    trouble: Mutex<Option<String>>,
    memories: Memories,
}

impl Identities {
    pub fn new(
        clients: Clients,
        settings: Settings,
        parties: Arc<dyn Parties>,
        own: Own,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            secrets: Secrets::new(clients.requests.clone(), metrics.clone()),
            clients,
            settings,
            metrics,
            parties,
            own,
            in_force: watch::channel(None).0,
            trouble: Mutex::default(),
            memories: Memories::default(),
        })
    }

    /// Changes whenever every cluster must be looked at for its identity.
    pub fn changes(&self) -> watch::Receiver<Option<Arc<InForce>>> {
        self.in_force.subscribe()
    }
}
