//! The installed operator's replicas: their pods, how many there are, and which of them leads. IO.

use crate::{
    operator::{NAME, namespace},
    test::{PATIENCE, Test},
    verdict::Verdict,
    wait::wait_for_object,
};
use anyhow::{Context, Result};
use api::names::annotation;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};

/// Names of the pods that are not on their way out.
pub async fn operator_pods(test: &Test) -> Result<Vec<String>> {
    let selection = ListParams::default().labels("app.kubernetes.io/component=operator");
    let pods = api(test).list(&selection).await.context("list the operator's pods")?.items;
    Ok(pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).map(ResourceExt::name_any).collect())
}

fn api(test: &Test) -> Api<Pod> {
    Api::namespaced(test.client(), &namespace())
}

/// Deletes a pod of the operator; it gets the time to say goodbye.
pub async fn delete(test: &Test, pod: &str) -> Result<()> {
    test.note(format!("delete {pod} of the operator"));
    let _ending = api(test).delete(pod, &DeleteParams::default()).await.with_context(|| format!("delete {pod}"))?;
    Ok(())
}

/// The pod that leads, other than `not`, and its term. Its address must be in the Lease.
pub async fn leader(test: &Test, not: Option<&str>) -> Result<(String, u64)> {
    let leases = Api::<Lease>::namespaced(test.client(), &namespace());
    let found = wait_for_object(leases, NAME, "a leader", PATIENCE, |lease| {
        let read = |lease: &Lease| {
            let holder = lease.spec.as_ref()?.holder_identity.as_deref()?.rsplit_once('_')?.0.to_owned();
            let annotations = lease.metadata.annotations.as_ref()?;
            annotations.get(annotation::LINE_ADDRESS).filter(|address| address.ends_with(":8443"))?;
            Some((holder, annotations.get(annotation::EPOCH)?.parse::<u64>().ok()?))
        };
        let found = lease.and_then(read).filter(|(holder, _)| not != Some(holder.as_str()));
        found.map_or_else(|| Verdict::NotYet(format!("{lease:?}")), Verdict::Met)
    });
    Ok(found.await?)
}

/// Runs this many of them and waits until all are Ready.
pub async fn scale(test: &Test, replicas: usize) -> Result<()> {
    let (name, count) = (format!("deployment/{NAME}"), format!("--replicas={replicas}"));
    test.kubectl(&["scale", &name, &count, "--namespace", &namespace()]).await?.success()?;
    let what = format!("{replicas} pods of the operator");
    test.wait_for(&what, PATIENCE, async || {
        let path = ["get", &name, "--namespace", &namespace(), "-o", "jsonpath={.status.readyReplicas}"];
        let ready = test.kubectl(&path).await?.success()?;
        let pods = operator_pods(test).await?.len();
        Ok(Verdict::when(ready == replicas.to_string() && pods == replicas, || format!("{ready} of {pods} are ready")))
    })
    .await
}
