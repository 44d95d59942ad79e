//! Labels say who gets clients, and everybody may edit them: a pod stays its cluster's whatever its label says, and a pod of somebody
//! else does not become one by a label.

use anyhow::{Context, Result};
use api::names::{self, label};
use e2e::{Cluster, PATIENCE, Scenario, Test, Verdict, cluster, workload};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;

#[test]
fn a_pod_stays_its_clusters_whatever_its_label_says() -> Result<()> {
    Scenario::named("a-pod-stays-its-clusters-whatever-its-label-says").run(async |test| {
        let one = Cluster::create(test, "one", json!({})).await?;
        let other = Cluster::create(test, "other", json!({})).await?;
        one.ready().await?;
        other.ready().await?;
        let lives = cluster::lives(&one.pods().await?);
        // While nobody puts the label back, the StatefulSet certainly lets the pod go.
        one.edit(json!({"paused": true})).await?;
        one.says("Progressing", "False", Some("Paused")).await?;
        let labelled = format!("{}=other", label::INSTANCE);
        test.kubectl(&["label", "pod", "one-0", "--overwrite", &labelled]).await?.success()?;
        controlled(test, "one-0", false).await?;
        let said = one.says("Degraded", "True", Some("PodMislabelled")).await?;
        assert!(said.message.contains("kubectl label pod one-0 --overwrite"), "{}", said.message);
        other.edit(json!({"config": {"hz": "20"}})).await?;
        other.ready().await?;
        assert_eq!(wanted(test, "other").await?, wanted(test, "one").await?, "it took the pod for its own");
        one.edit(json!({"paused": false})).await?;
        controlled(test, "one-0", true).await?;
        one.says("Degraded", "False", None).await?;
        one.ready().await?;
        assert_eq!(cluster::lives(&one.pods().await?), lives, "a pod was made anew");
        Ok(())
    })
}

#[test]
fn a_pod_of_somebody_else_with_the_clusters_labels_is_named_and_left_alone() -> Result<()> {
    Scenario::named("a-pod-of-somebody-else-with-the-clusters-labels").run(async |test| {
        let visited = Cluster::create(test, "visited", json!({})).await?;
        visited.ready().await?;
        let mut stranger = workload::echo_pod("stranger");
        stranger.metadata.labels.get_or_insert_default().extend(names::selector("visited"));
        test.apply(&stranger).await?;
        let said = visited.says("Degraded", "True", Some("ForeignPod")).await?;
        assert!(said.message.contains("kubectl label pod stranger app.kubernetes.io/instance-"), "{}", said.message);
        let found = test.api::<Pod>().get("stranger").await?;
        assert_eq!(found.labels().get(label::MANAGED_BY), None, "it was written to");
        let instance = format!("{}-", label::INSTANCE);
        test.kubectl(&["label", "pod", "stranger", &instance]).await?.success()?;
        visited.says("Degraded", "False", None).await?;
        visited.ready().await.map(drop)
    })
}

async fn controlled(test: &Test, pod: &str, controlled: bool) -> Result<()> {
    let what = format!("{pod} to have {} controller", if controlled { "its" } else { "no" });
    test.wait_for_object(pod, &what, PATIENCE, |pod: Option<&Pod>| {
        let owners = pod.map(|pod| pod.owner_references().to_vec()).unwrap_or_default();
        Verdict::when(pod.is_some() && owners.is_empty() != controlled, || format!("{owners:?}"))
    })
    .await
}

/// How many pods its StatefulSet asks for.
async fn wanted(test: &Test, name: &str) -> Result<Option<i32>> {
    let sets = test.api::<StatefulSet>().list(&ListParams::default()).await?;
    let set = sets.items.into_iter().find(|set| set.name_any() == name).context("there is a StatefulSet")?;
    Ok(set.spec.and_then(|spec| spec.replicas))
}
