//! The clients to the API server: from a kubeconfig or the pod's service account, and known by name in audit logs. No request, list or
//! watch waits for ever: an API server may take a connection and never answer.

use api::installed::Installed;
use hyper::header::{HeaderValue, USER_AGENT};
use kube::client::ClientBuilder;
use kube::runtime::watcher;
use kube::{Client, Config};
use std::sync::Arc;
use std::time::Duration;
use tower::timeout::TimeoutLayer;

const AGENT: &str = concat!("valkey-operator/", env!("CARGO_PKG_VERSION"));
/// How long one watch lasts; the next goes on where it ended. Nothing may happen in it, so its silence alone says nothing before.
const WATCH: Duration = Duration::from_secs(60);

/// How long the API server may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// An API server that is there takes a connection at once; another of its replicas is tried the sooner.
    pub connect: Duration,
    /// From a request to the head of its answer, repeated attempts included, and then from byte to byte: whoever asked is told, and
    /// tries again. A watch begins its answer at once as well.
    pub answer: Duration,
    /// In a watch, from byte to byte.
    pub watch: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        let answer = Duration::from_secs(10);
        Self { connect: Duration::from_secs(5), answer, watch: WATCH + answer }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no access to a Kubernetes cluster: set KUBECONFIG, or run in a pod with a service account ({0})")]
    Infer(kube::config::InferConfigError),
    #[error("the access to the Kubernetes cluster cannot be used")]
    Build(#[from] kube::Error),
}

#[derive(Clone)]
pub struct Clients {
    pub requests: Client,
    /// May be silent for longer once an answer has begun.
    pub watches: Client,
    /// What the API server takes of our statuses.
    pub installed: Arc<Installed>,
}

pub async fn clients() -> Result<Clients, Error> {
    let config = Config::infer().await.map_err(Error::Infer)?;
    clients_of(config, Deadlines::default())
}

pub fn clients_of(mut config: Config, deadlines: Deadlines) -> Result<Clients, Error> {
    config.connect_timeout = Some(deadlines.connect);
    config.write_timeout = Some(deadlines.answer);
    // Else a connection that was idle for almost as long would fail the next request on it.
    config.reset_reader_on_write = true;
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    let watches = client(config.clone(), deadlines.answer, deadlines.watch)?;
    let requests = client(config, deadlines.answer, deadlines.answer)?;
    Ok(Clients { requests, watches, installed: Arc::default() })
}

fn client(mut config: Config, head: Duration, silence: Duration) -> Result<Client, Error> {
    config.read_timeout = Some(silence);
    Ok(ClientBuilder::try_from(config)?.with_layer(&TimeoutLayer::new(head)).build())
}

/// Every watch is one of these: its end is told by the API server before the silence would be noticed.
pub fn watch_config() -> watcher::Config {
    watcher::Config::default().timeout(u32::try_from(WATCH.as_secs()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::{FakeApi, Silence};
    use futures::StreamExt;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::Api;
    use kube::api::{ListParams, Patch, PatchParams, PostParams};

    fn impatient() -> Deadlines {
        let moment = Duration::from_millis(50);
        Deadlines { connect: moment, answer: moment, watch: moment }
    }

    async fn silent() -> Clients {
        let api = FakeApi::start().await;
        api.silence(Silence::All);
        clients_of(api.config.clone(), impatient()).unwrap()
    }

    #[tokio::test]
    async fn no_request_waits_for_ever_for_a_silent_api_server() {
        let Clients { requests, watches, .. } = silent().await;
        for client in [requests, watches] {
            let api: Api<Secret> = Api::namespaced(client, "test");
            assert!(api.get("a").await.is_err());
            assert!(api.list(&ListParams::default()).await.is_err());
            assert!(api.create(&PostParams::default(), &Secret::default()).await.is_err());
            let patch = Patch::Merge(serde_json::json!({}));
            assert!(api.patch("a", &PatchParams::default(), &patch).await.is_err());
        }
    }

    #[tokio::test]
    async fn neither_the_list_nor_the_watch_of_a_silent_api_server_is_waited_for_for_ever() {
        let api: Api<ConfigMap> = Api::namespaced(silent().await.watches, "test");
        let mut events = watcher::watcher(api.clone(), watch_config()).boxed();
        assert!(matches!(events.next().await, Some(Ok(watcher::Event::Init))));
        assert!(matches!(events.next().await, Some(Err(watcher::Error::InitialListFailed(_)))));
        assert!(api.watch(&Default::default(), "0").await.is_err());
    }

    #[tokio::test]
    async fn a_server_that_takes_connections_and_no_request_is_not_waited_for_for_ever() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let clients = clients_of(config, impatient()).unwrap();
        assert!(Api::<Secret>::namespaced(clients.requests, "test").get("a").await.is_err());
        assert!(Api::<Secret>::namespaced(clients.watches, "test").get("a").await.is_err());
    }
}
