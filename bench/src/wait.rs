//! Waiting for objects by watching them, so that a moment is known to the millisecond. IO.

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug, time::Duration};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(180);

/// Objects by their name.
pub type Objects<K> = BTreeMap<String, K>;

/// Watches what `labels` select until `met` of all of them.
pub async fn wait_for<K>(api: &Api<K>, labels: &str, what: &str, met: impl Fn(&Objects<K>) -> bool) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    wait_at_most(PATIENCE, api, labels, what, met).await
}

pub async fn wait_at_most<K>(
    patience: Duration,
    api: &Api<K>,
    labels: &str,
    what: &str,
    met: impl Fn(&Objects<K>) -> bool,
) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    match timeout(patience, watch(api, labels, met)).await {
        Ok(ended) => ended.with_context(|| format!("watch for {what}")),
        Err(_) => bail!("waited {patience:?} in vain for {what}"),
    }
}

async fn watch<K>(api: &Api<K>, labels: &str, met: impl Fn(&Objects<K>) -> bool) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    loop {
        let list = api.list(&ListParams::default().labels(labels)).await?;
        let version = list.metadata.resource_version.clone().unwrap_or_default();
        let mut objects: Objects<K> = list.into_iter().map(|object| (object.name_any(), object)).collect();
        if met(&objects) {
            return Ok(());
        }
        let mut events = Box::pin(api.watch(&WatchParams::default().labels(labels), &version).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    objects.insert(object.name_any(), object);
                }
                WatchEvent::Deleted(object) => drop(objects.remove(&object.name_any())),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(_) => break,
            }
            if met(&objects) {
                return Ok(());
            }
        }
    }
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    pod.metadata.deletion_timestamp.is_none() && ready.any(|condition| condition.status == "True")
}

/// So many are there, and all of them are ready.
pub fn all_ready(count: usize) -> impl Fn(&Objects<Pod>) -> bool {
    move |pods| pods.len() == count && pods.values().all(is_ready)
}
