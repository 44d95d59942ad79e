//! The ValkeyCluster that is measured. IO.

use crate::wait::{Objects, all_ready, wait_at_most, wait_for};
use anyhow::{Context, Result};
use api::{cluster::ValkeyCluster, names};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::time::Duration;

pub const PODS: usize = 6;
const NAME: &str = "measured";
const LABEL: &str = "bench.valkey.io/cluster";

pub struct Cluster {
    version: String,
    pub pods: Api<Pod>,
    clusters: Api<ValkeyCluster>,
    services: Api<Service>,
}

impl Cluster {
    pub fn new(client: &Client, namespace: &str, version: &str) -> Self {
        Self {
            version: version.to_owned(),
            pods: Api::namespaced(client.clone(), namespace),
            clusters: Api::namespaced(client.clone(), namespace),
            services: Api::namespaced(client.clone(), namespace),
        }
    }

    pub async fn create(&self) -> Result<()> {
        let object = json!({
            "apiVersion": names::API_VERSION, "kind": names::KIND,
            "metadata": {"name": NAME, "labels": {LABEL: NAME}},
            "spec": {"masterCount": 3, "replicasPerMaster": 1, "valkeyImage": {"tag": self.version}},
        });
        self.clusters.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Changes the spec.
    pub async fn edit(&self, spec: Value) -> Result<()> {
        self.clusters.patch(NAME, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
        Ok(())
    }

    /// Until it is Ready with so many shards and nothing more is to be done; `look` sees every state on the way.
    pub async fn scaled(&self, masters: i32, patience: Duration, look: impl Fn(&ValkeyCluster)) -> Result<()> {
        let scaled = |clusters: &Objects<ValkeyCluster>| {
            let Some(cluster) = clusters.get(NAME) else { return false };
            look(cluster);
            let shards = cluster.status.as_ref().map(|status| status.master_count);
            is_ready(cluster) && condition(cluster, "Reconciling") == Some(false) && shards == Some(masters)
        };
        let what = format!("the cluster to be Ready with {masters} shards");
        wait_at_most(patience, &self.clusters, &format!("{LABEL}={NAME}"), &what, scaled).await
    }

    pub async fn ready(&self) -> Result<()> {
        let ready = |clusters: &Objects<ValkeyCluster>| clusters.get(NAME).is_some_and(is_ready);
        wait_for(&self.clusters, &format!("{LABEL}={NAME}"), "the cluster to be Ready", ready).await
    }

    /// Whether all replicas are in sync, by the status.
    pub async fn in_sync(&self, expected: bool) -> Result<()> {
        let told = |clusters: &Objects<ValkeyCluster>| {
            clusters.get(NAME).and_then(|cluster| condition(cluster, "ReplicasInSync")) == Some(expected)
        };
        wait_for(&self.clusters, &format!("{LABEL}={NAME}"), &format!("ReplicasInSync to be {expected}"), told).await
    }

    pub async fn pods_ready(&self) -> Result<()> {
        wait_for(&self.pods, &selector(), "all pods to be Ready", all_ready(PODS)).await
    }

    /// Until this pod, or the next of its name, has the role and everything is as it should be.
    pub async fn settled(&self, pod: &str, role: &str) -> Result<()> {
        let settled = |pods: &Objects<Pod>| all_ready(PODS)(pods) && pods.get(pod).is_some_and(|pod| has(pod, role));
        wait_for(&self.pods, &selector(), &format!("{pod} to be a {role} and all pods to be Ready"), settled).await?;
        self.ready().await
    }

    pub async fn delete(&self) -> Result<()> {
        let _accepted = self.clusters.delete(NAME, &DeleteParams::default()).await?;
        wait_for(&self.pods, &selector(), "the pods to be gone", Objects::is_empty).await?;
        wait_for(&self.clusters, &format!("{LABEL}={NAME}"), "the cluster to be gone", Objects::is_empty).await
    }

    pub async fn with_role(&self, role: &str) -> Result<Pod> {
        let parameters = ListParams::default().labels(&selector());
        let pods = self.pods.list(&parameters).await?.items;
        pods.into_iter().find(|pod| has(pod, role)).with_context(|| format!("no pod is a {role}"))
    }

    /// Where clients go; stays the same while pods come and go.
    pub async fn address(&self) -> Result<String> {
        let service = self.services.get(NAME).await?;
        let address = service.spec.and_then(|spec| spec.cluster_ip).context("the Service has no address")?;
        Ok(format!("{address}:{}", names::port::VALKEY))
    }
}

fn selector() -> String {
    names::selector_text(NAME)
}

fn has(pod: &Pod, role: &str) -> bool {
    pod.labels().get(names::label::ROLE).is_some_and(|has| has == role)
}

fn condition(cluster: &ValkeyCluster, kind: &str) -> Option<bool> {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.type_ == kind).map(|condition| condition.status == "True")
}

fn is_ready(cluster: &ValkeyCluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.any(|condition| condition.status == "True" && condition.observed_generation == cluster.metadata.generation)
}
