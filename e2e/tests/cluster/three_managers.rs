//! One cluster with three owners: what is in Git, what a person sets, and how many shards an autoscaler wants. Nobody takes a field from
//! another, and nobody sees a difference that comes back. Pods have no part in this, so the cluster is paused from the beginning.

use anyhow::{Context, Result, ensure};
use api::cluster::ValkeyCluster;
use e2e::{PATIENCE, Scenario, Test, Verdict};
use kube::ResourceExt;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Without masterCount: that is the autoscaler's.
const IN_GIT: &str = r#"
apiVersion: valkey.io/v1alpha1
kind: ValkeyCluster
metadata: {name: shared, labels: {from: git}}
spec:
  paused: true
  replicasPerMaster: 0
  config: {maxmemory-policy: allkeys-lru}
  env: [{name: TZ, value: UTC}]
  service: {annotations: {a.example/from: git}}
"#;
const OF_A_PERSON: &str = r#"
apiVersion: valkey.io/v1alpha1
kind: ValkeyCluster
metadata: {name: shared, annotations: {contact: somebody}}
spec:
  config: {hz: "20"}
  env: [{name: NOTE, value: by hand}]
  service: {annotations: {b.example/from: a person}}
"#;
const WANTED: &str = "5";

#[test]
fn git_a_person_and_an_autoscaler_share_a_cluster_without_conflicts() -> Result<()> {
    Scenario::named("three-managers-share-a-cluster").run(async |test| {
        handed_over(test).await?;
        apply(test, "person", OF_A_PERSON).await?;
        let settled = observed(test).await?;
        assert_eq!(settled.spec.master_count, Some(5), "the autoscaler's number");
        for _ in 0..2 {
            apply(test, "gitops", IN_GIT).await?;
            apply(test, "person", OF_A_PERSON).await?;
            scale(test).await?;
        }
        let after = observed(test).await?;
        assert_eq!((after.spec, after.metadata.generation), (settled.spec, settled.metadata.generation));
        same_as(test, "gitops", IN_GIT).await?;
        same_as(test, "person", OF_A_PERSON).await?;
        owners(test).await
    })
}

/// Git had the number at first. The autoscaler's is then its own: Git cannot set it back, and takes the field out.
async fn handed_over(test: &Test) -> Result<()> {
    let at_first = IN_GIT.replace("paused: true", "paused: true\n  masterCount: 4");
    apply(test, "gitops", &at_first).await?;
    scale(test).await?;
    let refused = apply(test, "gitops", &at_first).await.err().context("Git took the number back")?;
    ensure!(format!("{refused:#}").contains(".spec.masterCount"), "{refused:#}");
    apply(test, "gitops", IN_GIT).await
}

/// Without force: a field of somebody else would be a conflict, and an error.
async fn apply(test: &Test, manager: &str, manifest: &str) -> Result<()> {
    let file = written(test, manager, manifest)?;
    let manager = format!("--field-manager={manager}");
    test.kubectl(&["apply", "--server-side", &manager, "-f", &file]).await?.success().map(drop)
}

/// As an autoscaler does, through the scale subresource.
async fn scale(test: &Test) -> Result<()> {
    test.kubectl(&["scale", "vc/shared", &format!("--replicas={WANTED}")]).await?.success().map(drop)
}

/// What a tool for Git asks before it says that all is in sync.
async fn same_as(test: &Test, manager: &str, manifest: &str) -> Result<()> {
    let file = written(test, manager, manifest)?;
    let owner = format!("--field-manager={manager}");
    let told = test.kubectl(&["diff", "--server-side", &owner, "-f", &file]).await?;
    ensure!(told.code == 0, "{manager} sees a difference: {}{}", told.stdout, told.stderr);
    Ok(())
}

fn written(test: &Test, manager: &str, manifest: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{manager}.yaml", test.namespace));
    std::fs::write(&path, manifest).with_context(|| format!("write {}", path.display()))?;
    Ok(path.display().to_string())
}

/// The cluster once the operator has seen its spec.
async fn observed(test: &Test) -> Result<ValkeyCluster> {
    let what = "the operator to have seen the spec";
    let found = test.wait_for_object("shared", what, PATIENCE, |cluster: Option<&ValkeyCluster>| {
        let seen = |cluster: &&ValkeyCluster| {
            cluster.status.as_ref().and_then(|status| status.observed_generation) == cluster.metadata.generation
        };
        match cluster.filter(seen) {
            Some(cluster) => Verdict::Met(cluster.clone()),
            None => Verdict::NotYet(format!("{:?}", cluster.and_then(|cluster| cluster.status.as_ref()))),
        }
    });
    found.await
}

/// The number of shards is the autoscaler's alone, and of all that there is the operator owns the status and nothing else.
async fn owners(test: &Test) -> Result<()> {
    let cluster = test.api::<ValkeyCluster>().get("shared").await?;
    let mut of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut counters = Vec::new();
    for entry in cluster.managed_fields() {
        let (manager, part) = (entry.manager.as_deref().unwrap_or_default(), entry.subresource.as_deref());
        of.entry(manager).or_default().insert(part.unwrap_or("itself"));
        let fields = serde_json::to_value(&entry.fields_v1)?;
        if fields.pointer("/f:spec/f:masterCount").is_some() {
            counters.push(part);
        }
    }
    assert_eq!(counters, [Some("scale")], "{of:?}");
    assert_eq!(of[api::names::MANAGER], BTreeSet::from(["status"]), "{of:?}");
    Ok(())
}
