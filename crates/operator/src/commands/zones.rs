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

/// Of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Zone {
    /// None: it has none, or none can be told.
    Known(Option<String>),
    /// Its node is yet to be looked up.
    Awaited,
}

impl Zones {
    /// As far as it is known without asking. Newer Kubernetes writes the zone on the pod itself.
    pub fn of(&self, pod: &PodFacts) -> Zone {
        match (pod.labels.get(ZONE), &pod.node) {
            (Some(zone), _) => Zone::Known(Some(zone.clone())),
            (None, None) => Zone::Known(None),
            (None, Some(node)) => self.known(node).map_or(Zone::Awaited, Zone::Known),
        }
    }

    /// Asks for what is awaited; true when that was anything.
    pub async fn look_up(&self, pod: &PodFacts, client: &Client) -> bool {
        let Some(node) = pod.node.as_ref().filter(|_| self.of(pod) == Zone::Awaited) else { return false };
        let zone = ask(node, client).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(node.clone(), (zone, Instant::now()));
        true
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::FakeApi;
    use serde_json::json;

    #[tokio::test]
    async fn a_zone_is_awaited_until_its_node_was_looked_up_once() {
        let api = FakeApi::start().await;
        api.put("/api/v1/nodes/a", json!({ "metadata": { "name": "a", "labels": { ZONE: "north" } } }));
        let client = Client::try_from(api.config.clone()).unwrap();
        let (zones, nowhere) = (Zones::default(), PodFacts::default());
        let on = |node: &str| PodFacts { node: Some(node.to_owned()), ..PodFacts::default() };
        assert_eq!((zones.of(&nowhere), zones.of(&on("a"))), (Zone::Known(None), Zone::Awaited));
        assert!(!zones.look_up(&nowhere, &client).await && zones.look_up(&on("a"), &client).await);
        assert_eq!(zones.of(&on("a")), Zone::Known(Some("north".to_owned())));
        assert!(!zones.look_up(&on("a"), &client).await, "it was asked for already");
        assert!(zones.look_up(&on("gone"), &client).await);
        assert_eq!(zones.of(&on("gone")), Zone::Known(None), "nobody waits for what cannot be told");
    }
}
