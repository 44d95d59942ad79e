//! What the other tests ask of Secrets, of the objects that show them, and of the root.

use anyhow::{Context, Result, ensure};
use api::certificates::{ValkeyCA, ValkeyCertificateBinding, ValkeyCertificateBundle, names};
use api::names as common;
use e2e::{Cluster, PATIENCE, Test, Verdict, cluster, operator};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, api::DeleteParams, api::Patch, api::PatchParams};
use pki::{Bundle, StoredLeaf, identity, stored_leaf};
use serde_json::json;

pub fn part<'s>(secret: &'s Secret, key: &str) -> &'s [u8] {
    secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.as_slice()).unwrap_or_default()
}

pub async fn secret(test: &Test, name: &str) -> Result<Option<Secret>> {
    Ok(test.api::<Secret>().get_opt(name).await?)
}

/// The leaf that the pods of this cluster mount, checked as the operator's peer would: chain, key, identity, roots.
pub async fn leaf(cluster: &Cluster<'_>) -> Result<StoredLeaf> {
    let secret = secret(cluster.test, &common::mtls_secret(&cluster.name)).await?.context("there is no leaf Secret")?;
    let roots = Bundle::from_pem(part(&secret, "ca.crt"))?;
    let id = identity::sidecar(&cluster.test.namespace, &cluster.name)?;
    Ok(stored_leaf(part(&secret, "tls.crt"), part(&secret, "tls.key"), &id, &roots, Timestamp::now())?)
}

/// Waits for a whole leaf other than that one.
pub async fn another_leaf(cluster: &Cluster<'_>, before: &StoredLeaf) -> Result<StoredLeaf> {
    let what = format!("another leaf of {}", cluster.name);
    cluster
        .test
        .wait_for(&what, PATIENCE, async || {
            Ok(match leaf(cluster).await {
                Ok(found) if found.thumbprint != before.thumbprint => Verdict::Met(found),
                Ok(_) => Verdict::not_yet("it is the same"),
                Err(error) => Verdict::NotYet(format!("{error:#}")),
            })
        })
        .await
}

pub async fn bundle(cluster: &Cluster<'_>) -> Result<ValkeyCertificateBundle> {
    Ok(cluster.test.api::<ValkeyCertificateBundle>().get(&names::bundle(&cluster.name)).await?)
}

pub async fn binding(cluster: &Cluster<'_>) -> Result<ValkeyCertificateBinding> {
    Ok(cluster.test.api::<ValkeyCertificateBinding>().get(&names::binding(&cluster.name)).await?)
}

/// Waits until the sidecars of all pods are known to show this leaf.
pub async fn all_show(cluster: &Cluster<'_>, leaf: &StoredLeaf, pods: usize) -> Result<()> {
    let (what, all) =
        (format!("{pods} sidecars of {} to show the newest leaf", cluster.name), format!("{pods}/{pods}"));
    cluster
        .test
        .wait_for(&what, PATIENCE, async || {
            let binding = binding(cluster).await?;
            let status = binding.status.unwrap_or_default();
            let active = binding.spec.active.first().context("nothing is active")?;
            let shown = active.thumbprint == leaf.thumbprint.as_str() && active.active;
            let counted = status.switched.as_deref() == Some(&all) && binding.spec.deprecated.is_empty();
            Ok(Verdict::when(shown && counted, || format!("{active:?} {:?}", status.switched)))
        })
        .await
}

pub async fn delete_secret(api: &Api<Secret>, name: &str) -> Result<()> {
    let _gone = api.delete(name, &DeleteParams::default()).await.with_context(|| format!("delete {name}"))?;
    Ok(())
}

pub async fn spoil(test: &Test, name: &str, key: &str, text: &str) -> Result<()> {
    let patch = json!({ "data": { key: ByteString(text.as_bytes().to_vec()) } });
    test.api::<Secret>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// The operator's own Secrets.
pub fn operator_secrets(test: &Test) -> Api<Secret> {
    Api::namespaced(test.client(), &operator::namespace())
}

pub fn authorities(test: &Test) -> Api<ValkeyCA> {
    Api::namespaced(test.client(), &operator::namespace())
}

pub async fn root(test: &Test) -> Result<String> {
    let status = authorities(test).get(names::ROOT).await?.status.context("the ValkeyCA has no status")?;
    status.thumbprint.context("no root signs")
}

/// Names the Secret with the wanted root.
pub async fn want_root(test: &Test, secret: &str) -> Result<()> {
    test.note(format!("the ValkeyCA names the Secret {secret}"));
    let patch = json!({ "spec": { "caCertSecretRef": secret } });
    authorities(test).patch(names::ROOT, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Waits until exactly one root is trusted, and it is not that one.
pub async fn another_root(test: &Test, before: &str) -> Result<String> {
    test.wait_for("another root to be the only one", PATIENCE, async || {
        let status = authorities(test).get(names::ROOT).await?.status.unwrap_or_default();
        let signs = status.thumbprint.clone().unwrap_or_default();
        let alone = status.trusted.len() == 1 && status.trusted[0].thumbprint == signs;
        let settled = alone && signs != before && !signs.is_empty();
        Ok(if settled {
            Verdict::Met(signs)
        } else {
            Verdict::NotYet(format!("{:?} {:?}", status.plan, status.trusted.len()))
        })
    })
    .await
}

/// Waits until the condition Ready of the ValkeyCA has this reason; gives its message.
pub async fn root_says(test: &Test, reason: &str) -> Result<String> {
    test.wait_for(&format!("the ValkeyCA to say {reason}"), PATIENCE, async || {
        let authority = authorities(test).get(names::ROOT).await?;
        let generation = authority.metadata.generation;
        let conditions = authority.status.map(|status| status.conditions).unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
        let ready = ready.context("there is no condition Ready")?;
        let told = ready.reason == reason && ready.observed_generation == generation;
        Ok(if told {
            Verdict::Met(ready.message)
        } else {
            Verdict::NotYet(format!("{} {}", ready.reason, ready.message))
        })
    })
    .await
}

/// The connections of this cluster's sidecars, and that none was lost.
pub async fn connected(cluster: &Cluster<'_>, pods: usize) -> Result<()> {
    cluster.says("SidecarsConnected", "True", None).await?;
    let sidecars = cluster.get().await?.status.and_then(|status| status.sidecars);
    ensure!(sidecars == Some(format!("{pods}/{pods}")), "{sidecars:?}");
    Ok(())
}

/// When the conditions that a rotation must not touch last changed.
pub async fn transitions(poc: &Cluster<'_>) -> Result<Vec<String>> {
    let found = poc.get().await?;
    let moment = |name| cluster::condition(&found, name).map(|condition| condition.last_transition_time.0.to_string());
    Ok(["Ready", "SidecarsConnected"].into_iter().filter_map(moment).collect())
}
