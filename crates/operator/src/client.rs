//! The clients to the API server: from a kubeconfig or the pod's service account, and known by name in audit logs.

use hyper::header::{HeaderValue, USER_AGENT};
use kube::{Client, Config};
use std::time::Duration;

/// An API server that is there takes a connection at once; another of its replicas is tried the sooner.
const CONNECT: Duration = Duration::from_secs(5);
/// A request that gets no byte for this long will get none: whoever asked is told, and tries again. Only a watch may be silent for longer.
const ANSWER: Duration = Duration::from_secs(10);
const AGENT: &str = concat!("valkey-operator/", env!("CARGO_PKG_VERSION"));

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no access to a Kubernetes cluster: set KUBECONFIG, or run in a pod with a service account ({0})")]
    Infer(kube::config::InferConfigError),
    #[error("the access to the Kubernetes cluster cannot be used")]
    Build(#[from] kube::Error),
}

#[derive(Clone)]
pub struct Clients {
    /// Every request has a deadline.
    pub requests: Client,
    pub watches: Client,
}

pub async fn clients() -> Result<Clients, Error> {
    let mut config = Config::infer().await.map_err(Error::Infer)?;
    config.connect_timeout = Some(CONNECT);
    config.write_timeout = Some(ANSWER);
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    config.read_timeout = None;
    let watches = Client::try_from(config.clone())?;
    config.read_timeout = Some(ANSWER);
    Ok(Clients { requests: Client::try_from(config)?, watches })
}
