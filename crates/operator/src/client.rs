//! The client to the API server: from a kubeconfig or the pod's service account, and known by name in audit logs.

use hyper::header::{HeaderValue, USER_AGENT};
use kube::{Client, Config};
use std::time::Duration;

/// An API server that is there takes a connection at once; another of its replicas is tried the sooner.
const CONNECT: Duration = Duration::from_secs(5);
const AGENT: &str = concat!("valkey-operator/", env!("CARGO_PKG_VERSION"));

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no access to a Kubernetes cluster: set KUBECONFIG, or run in a pod with a service account ({0})")]
    Infer(kube::config::InferConfigError),
    #[error("the access to the Kubernetes cluster cannot be used")]
    Build(#[from] kube::Error),
}

pub async fn client() -> Result<Client, Error> {
    let mut config = Config::infer().await.map_err(Error::Infer)?;
    config.connect_timeout = Some(CONNECT);
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    Ok(Client::try_from(config)?)
}
