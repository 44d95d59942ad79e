//! Tells running pods that their Secret changed: a changed pod makes the kubelet refresh its volumes at once.

use super::Identities;
use crate::runtime;
use api::names::{MANAGER, annotation};
use certificates::Leaf;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use planner::PodFacts;
use serde_json::json;

/// Requests under way at the same time.
const AT_A_TIME: usize = 8;

/// What the Secret holds, in a few letters.
fn revision(leaf: &Leaf) -> String {
    let roots = leaf.roots.iter().map(|root| root.as_str()).collect::<Vec<_>>().join(" ");
    planner::digest(&format!("{} {roots}", leaf.thumbprint))
}

impl Identities {
    /// Pods that were made after the Secret was written mount the newest anyway.
    pub(super) async fn tell(&self, namespace: &str, leaf: &Leaf, written: Timestamp, pods: &[PodFacts]) {
        let revision = revision(leaf);
        let has = |pod: &PodFacts| pod.annotations.get(annotation::IDENTITY_REVISION) == Some(&revision);
        let older = |pod: &PodFacts| pod.created < written.as_second();
        let behind = pods.iter().filter(|pod| pod.running && !pod.terminating && older(pod) && !has(pod));
        let patches: Vec<_> = behind.map(|pod| self.annotate(namespace, pod, &revision)).collect();
        stream::iter(patches).buffer_unordered(AT_A_TIME).collect::<Vec<()>>().await;
    }

    async fn annotate(&self, namespace: &str, pod: &PodFacts, revision: &str) {
        let api = runtime::pods(&self.client, namespace);
        let patch =
            json!({ "metadata": { "uid": pod.uid, "annotations": { annotation::IDENTITY_REVISION: revision } } });
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.metrics.write("patch", "Pod");
        // Not told, the kubelet refreshes the volume by itself within a minute or two.
        if let Err(error) = api.patch(&pod.name, &parameters, &Patch::Merge(&patch)).await {
            tracing::debug!(pod = pod.name, %error, "the pod was not told of its new certificate");
        }
    }
}
