//! In which zone a Kubernetes node is. A node's zone does not change, so each is asked for once; where the operator may not
//! read nodes, or there are no zones, replicas are spread over nodes only.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use planner::PodFacts;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;

const ZONE: &str = "topology.kubernetes.io/zone";
/// How long an answer of "cannot tell" stands.
const UNANSWERED: Duration = Duration::from_secs(600);
/// Nobody waits longer than this for a zone.
const ANSWER: Duration = Duration::from_secs(3);
/// Nodes come and go: past this many names all are asked for anew.
const MOST: usize = 10_000;

#[derive(Default)]
pub struct Zones {
    known: Mutex<HashMap<String, (Option<String>, Instant)>>,
}

impl Zones {
    /// As far as it is known without asking. Newer Kubernetes writes the zone on the pod itself.
    pub fn known_of(&self, pod: &PodFacts) -> Option<String> {
        let of_node = || self.known(pod.node.as_ref()?).flatten();
        pod.labels.get(ZONE).cloned().or_else(of_node)
    }

    pub async fn of(&self, pod: &PodFacts, client: &Client) -> Option<String> {
        if let Some(zone) = pod.labels.get(ZONE) {
            return Some(zone.clone());
        }
        let node = pod.node.as_ref()?;
        if let Some(zone) = self.known(node) {
            return zone;
        }
        let zone = ask(node, client).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(node.clone(), (zone.clone(), Instant::now()));
        zone
    }

    fn known(&self, node: &str) -> Option<Option<String>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (zone, since) = known.get(node)?;
        (zone.is_some() || since.elapsed() < UNANSWERED).then(|| zone.clone())
    }
}

async fn ask(node: &str, client: &Client) -> Option<String> {
    let api = Api::<Node>::all(client.clone());
    match timeout(ANSWER, api.get_metadata_opt(node)).await {
        Ok(Ok(node)) => node?.metadata.labels?.remove(ZONE),
        Ok(Err(error)) => {
            tracing::info!(node, %error, "the node's zone cannot be read; replicas are spread over nodes only");
            None
        }
        Err(_) => None,
    }
}
