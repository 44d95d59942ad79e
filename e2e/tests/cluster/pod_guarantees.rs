//! What every pod is held to: Pod Security `restricted` (the namespace enforces it), no token, no writable root, the ids of the spec,
//! and no eviction behind the operator's back.

use anyhow::Result;
use api::names;
use e2e::{Cluster, Scenario};
use k8s_openapi::api::core::v1::{Pod, PodSpec, ServiceAccount};
use serde_json::json;

#[test]
fn pods_have_no_token_no_writable_root_and_the_ids_of_the_spec() -> Result<()> {
    Scenario::named("pods-have-no-token-and-no-writable-root").run(async |test| {
        let ids = json!({"securityContext": {"runAsUser": 1000, "runAsGroup": 1001, "fsGroup": 1002}});
        let strict = Cluster::create(test, "strict", ids).await?;
        strict.ready().await?;
        let shell = async |script: &str| test.exec_in("strict-0", "valkey", &["sh", "-c", script]).await;
        assert_eq!(shell("id -u; id -g").await?.success()?, "1000\n1001\n");
        assert_ne!(shell("ls /var/run/secrets/kubernetes.io").await?.code, 0, "a token is mounted");
        let written = shell("touch /somewhere").await?;
        assert!(written.stderr.contains("Read-only file system"), "{written:?}");
        shell("touch /data/somewhere /tmp/somewhere").await?.success()?;
        let account = test.api::<ServiceAccount>().get("strict-valkey").await?;
        assert_eq!(account.automount_service_account_token, Some(false));
        for pod in strict.pods().await? {
            has_no_rights(&pod);
        }
        Ok(())
    })
}

fn has_no_rights(pod: &Pod) {
    let spec = pod.spec.as_ref().expect("a pod has a spec");
    only_the_sidecar_has_an_identity(spec);
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        let security = container.security_context.as_ref().expect("a container says how it is confined");
        assert_eq!(security.read_only_root_filesystem, Some(true), "{}", container.name);
        assert_eq!(security.allow_privilege_escalation, Some(false), "{}", container.name);
        let dropped = security.capabilities.as_ref().and_then(|capabilities| capabilities.drop.clone());
        assert_eq!(dropped.as_deref(), Some(["ALL".to_owned()].as_slice()), "{}", container.name);
    }
}

/// The sidecar's certificate and a token for the operator alone, in its own container; no token that the API would take.
fn only_the_sidecar_has_an_identity(spec: &PodSpec) {
    let volumes = spec.volumes.as_deref().unwrap_or_default();
    let secrets: Vec<_> = volumes.iter().filter_map(|volume| volume.secret.as_ref()?.secret_name.as_deref()).collect();
    assert_eq!(secrets, ["strict-mtls"]);
    let projected = volumes.iter().filter_map(|volume| volume.projected.as_ref());
    let sources: Vec<_> = projected.flat_map(|projected| projected.sources.iter().flatten()).collect();
    let audiences: Vec<_> = sources
        .iter()
        .filter_map(|source| source.service_account_token.as_ref().map(|token| token.audience.as_deref()))
        .collect();
    assert_eq!((sources.len(), audiences.as_slice()), (1, [Some(names::LINE_AUDIENCE)].as_slice()));
    let identity = |name: &str| {
        volumes.iter().any(|volume| volume.name == name && (volume.secret.is_some() || volume.projected.is_some()))
    };
    for container in &spec.containers {
        let mounts = container.volume_mounts.iter().flatten();
        assert!(!mounts.clone().any(|mount| identity(&mount.name)), "{} holds the identity", container.name);
    }
}

#[test]
fn a_pod_is_not_evicted_behind_the_operators_back() -> Result<()> {
    Scenario::named("a-pod-is-not-evicted").run(async |test| {
        let guarded = Cluster::create(test, "guarded", json!({})).await?;
        guarded.ready().await?;
        // With kubectl, because a client that is told to try again later does so, again and again.
        let eviction = tempfile::NamedTempFile::new()?;
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "guarded-0"}});
        std::fs::write(eviction.path(), body.to_string())?;
        let path = format!("/api/v1/namespaces/{}/pods/guarded-0/eviction", test.namespace);
        let refused = test.kubectl(&["create", "--raw", &path, "-f", &eviction.path().display().to_string()]).await?;
        assert_ne!(refused.code, 0, "the eviction was allowed");
        assert!(refused.stderr.contains("disruption budget"), "{refused:?}");
        guarded.ready().await.map(drop)
    })
}
