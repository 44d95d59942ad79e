//! Pods keep an older sidecar until somebody asks for the operator's: `valkey.io/update-sidecars` gives it to those that are made from then
//! on, and restarts none.

use anyhow::{Context, Result};
use api::names::{annotation::UPDATE_SIDECARS, container};
use e2e::{Cluster, PATIENCE, Scenario, Test, Verdict, cluster};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// What `images/build sidecar-older` makes.
const OLDER: &str = "ghcr.io/valkey-operator/sidecar:v0.0.9";

#[test]
fn sidecars_are_replaced_when_somebody_asks_for_it_and_pods_when_they_are_made_anew() -> Result<()> {
    Scenario::named("sidecars-are-replaced-when-somebody-asks").run(async |test| {
        let kept = Cluster::create(test, "kept", json!({"pvc": {"storageSize": "300Mi"}})).await?;
        kept.ready().await?;
        was_made_by_an_older_operator(test, &kept).await?;
        let build = asked_for(&kept).await?;
        let lives = cluster::lives(&kept.pods().await?);
        annotate(&kept, &build).await?;
        followed(test, &build).await?;
        let waiting = kept.says("RestartRequired", "True", Some("RestartPending")).await?;
        assert!(waiting.message.ends_with(": sidecarImage"), "{}", waiting.message);
        assert_eq!(cluster::lives(&kept.pods().await?), lives, "to ask for it restarts nothing");
        for ordinal in 0..3 {
            kept.replace_pods([ordinal]).await?;
            kept.ready().await?;
        }
        kept.says("SidecarsUpToDate", "True", Some("SidecarsCurrent")).await?;
        kept.says("RestartRequired", "False", Some("NothingPending")).await?;
        kept.ready().await.map(drop)
    })
}

/// A template with an earlier sidecar is all that an earlier operator leaves behind.
async fn was_made_by_an_older_operator(test: &Test, kept: &Cluster<'_>) -> Result<()> {
    let containers = json!([{"name": container::SIDECAR, "image": OLDER}]);
    let patch = json!({"spec": {"template": {"spec": {"initContainers": containers}}}});
    let sets = test.api::<StatefulSet>();
    let patched = sets.patch(&kept.name, &PatchParams::default(), &Patch::Strategic(patch)).await;
    let _set = patched.context("give the template the older sidecar")?;
    let replaced = kept.replace_pods(0..3).await;
    replaced.with_context(|| format!("is {OLDER} on the nodes? e2e/README.md says how it gets there"))?;
    kept.ready().await.map(drop)
}

/// The build that the condition tells to ask for.
async fn asked_for(kept: &Cluster<'_>) -> Result<String> {
    let outdated = kept.says("SidecarsUpToDate", "False", Some("SidecarsOutdated")).await?;
    let message = outdated.message;
    assert!(message.contains("kept-0") && message.contains("kept-2"), "{message}");
    let (_, after) = message.split_once(&format!("{UPDATE_SIDECARS}=")).with_context(|| message.clone())?;
    after.split_whitespace().next().map(str::to_owned).context(message)
}

async fn annotate(kept: &Cluster<'_>, build: &str) -> Result<()> {
    let metadata = json!({"metadata": {"annotations": {UPDATE_SIDECARS: build}}});
    let patched = kept.api().patch(&kept.name, &PatchParams::default(), &Patch::Merge(metadata)).await;
    patched.map(drop).context("ask for the operator's sidecar")
}

/// The status repeats what was asked for once the pods that are made get it.
async fn followed(test: &Test, build: &str) -> Result<()> {
    test.wait_for("status.sidecarUpdate to repeat the request", PATIENCE, async || {
        let kept = Cluster::named(test, "kept").get().await?;
        let told = kept.status.and_then(|status| status.sidecar_update);
        Ok(Verdict::when(told.as_deref() == Some(build), || format!("it is {told:?}, asked for was {build}")))
    })
    .await
}
