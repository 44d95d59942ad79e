//! A new cluster has an identity before its pods start: bundle, binding and Secrets with the right owners, and no key where none belongs.

use crate::stored::{all_show, binding, bundle, connected, leaf, part, root, secret};
use anyhow::{Context, Result};
use api::certificates::names;
use e2e::{Cluster, Scenario};
use kube::ResourceExt;
use serde_json::json;

#[test]
fn a_new_cluster_gets_an_identity_of_its_own() -> Result<()> {
    Scenario::named("a-new-cluster-gets-an-identity").run(async |test| {
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let found = leaf(&poc).await?;
        all_show(&poc, &found, 3).await?;
        connected(&poc, 3).await?;
        let (bundle, binding) = (bundle(&poc).await?, binding(&poc).await?);
        assert_eq!(bundle.owner_references()[0].uid, poc.get().await?.uid().unwrap());
        assert_eq!(binding.owner_references()[0].uid, bundle.uid().unwrap());
        let status = bundle.status.context("the bundle has no status")?;
        let id = format!("spiffe://{}/valkeycluster/poc/sidecar", test.namespace);
        assert_eq!(status.spiffe_id.as_deref(), Some(id.as_str()));
        assert_eq!(status.thumbprint.as_deref(), Some(found.issuer.as_str()));
        assert_eq!(status.root_thumbprint, Some(root(test).await?));
        let certificate = secret(test, &bundle.spec.cert_secret_ref).await?.context("no certificate")?;
        assert!(part(&certificate, "tls.key").is_empty(), "the key is in a Secret of its own");
        assert_eq!(bundle.spec.key_secret_ref, names::intermediate_key_secret(&test.namespace, "poc"));
        assert!(
            secret(test, &bundle.spec.key_secret_ref).await?.is_none(),
            "the key is in the operator's namespace alone"
        );
        only_the_sidecar_mounts_it(&poc).await
    })
}

async fn only_the_sidecar_mounts_it(cluster: &Cluster<'_>) -> Result<()> {
    for pod in cluster.pods().await? {
        let spec = pod.spec.context("a pod has a spec")?;
        let text = serde_json::to_string(&spec)?;
        assert!(!text.contains("mtls-ca"), "a pod mounts the intermediate");
        let volume = spec.volumes.iter().flatten().find(|volume| {
            volume.secret.as_ref().is_some_and(|secret| secret.secret_name.as_deref() == Some("poc-mtls"))
        });
        let volume = &volume.context("no pod mounts the leaf")?.name;
        let mounted = |mounts: &Option<Vec<k8s_openapi::api::core::v1::VolumeMount>>| {
            mounts.iter().flatten().any(|mount| mount.name == *volume)
        };
        assert!(!spec.containers.iter().any(|container| mounted(&container.volume_mounts)));
        let sidecar = spec.init_containers.iter().flatten().find(|container| container.name == "sidecar");
        assert!(sidecar.is_some_and(|sidecar| mounted(&sidecar.volume_mounts)));
    }
    Ok(())
}
