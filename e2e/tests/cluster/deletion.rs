//! Deleting a cluster takes all its objects along, and leaves the data.

use anyhow::Result;
use api::{cluster::ValkeyCluster, names};
use e2e::{Cluster, Scenario, Verdict};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use serde_json::json;

const KINDS: &str = "pods,serviceaccounts,configmaps,services,networkpolicies,poddisruptionbudgets,statefulsets";

#[test]
fn a_deleted_cluster_takes_its_objects_along_and_leaves_the_data() -> Result<()> {
    Scenario::named("a-deleted-cluster-leaves-only-its-data").run(async |test| {
        let storage = json!({"pvc": {"storageSize": "300Mi"}, "readService": {"enabled": true}});
        let doomed = Cluster::create(test, "doomed", storage.clone()).await?;
        doomed.ready().await?;
        let id = doomed.node_id(0).await?;
        test.delete_and_wait::<ValkeyCluster>("doomed").await?;
        test.wait_for("all objects of the cluster to be gone", e2e::PATIENCE, async || {
            let left = test.kubectl(&["get", KINDS, "-l", &doomed.selector(), "-o", "name"]).await?.success()?;
            Ok(Verdict::when(left.is_empty(), || left))
        })
        .await?;
        let ours = ListParams::default().labels(&doomed.selector());
        assert_eq!(test.api::<PersistentVolumeClaim>().list(&ours).await?.items.len(), 3, "the data is to stay");
        // A cluster of the same name finds it again.
        let again = Cluster::create(test, "doomed", storage).await?;
        again.ready().await?;
        assert_eq!(again.node_id(0).await?, id, "{} lost its identity", names::pod("doomed", 0));
        Ok(())
    })
}
