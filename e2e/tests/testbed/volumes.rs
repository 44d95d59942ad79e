//! Volumes of the default storage class: they keep data, grow under a running pod, really fill up, and go with their claim.

use e2e::{Scenario, Test, Verdict, test::PATIENCE, wait_for_object, workload};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{Api, ResourceExt};

#[test]
fn a_volume_keeps_its_data_over_pod_deletion() -> anyhow::Result<()> {
    Scenario::named("a-volume-keeps-its-data-over-pod-deletion").run(async |test| {
        let pod = start(test, "300Mi").await?;
        shell(test, "echo kept > /data/note && sync").await?;
        test.delete_and_wait::<Pod>("writer").await?;
        test.apply(&workload::echo_pod_with_claim("writer", "data")).await?;
        let successor = test.wait_for_pod("writer").await?;
        assert_ne!(successor.uid(), pod.uid());
        assert_eq!(shell(test, "cat /data/note").await?, "kept\n");
        Ok(())
    })
}

#[test]
fn a_volume_grows_under_a_running_pod() -> anyhow::Result<()> {
    Scenario::named("a-volume-grows-under-a-running-pod").run(async |test| {
        let pod = start(test, "300Mi").await?;
        let before = size_in_mebibytes(test).await?;
        test.apply(&workload::claim("data", "400Mi")).await?;
        test.wait_for_object::<PersistentVolumeClaim, _>("data", "the claim to report 400Mi", PATIENCE, |claim| {
            let capacity = claim.and_then(capacity);
            Verdict::when(capacity.as_deref() == Some("400Mi"), || format!("its capacity is {capacity:?}"))
        })
        .await?;
        let after = size_in_mebibytes(test).await?;
        assert!(after >= before + 90, "the file system had {before} MiB and has {after} MiB");
        assert_eq!(test.wait_for_pod("writer").await?.uid(), pod.uid(), "the pod was not to be replaced");
        shell(test, "dd if=/dev/zero of=/data/large bs=1M count=310").await?;
        Ok(())
    })
}

#[test]
fn a_volume_fills_up_and_recovers() -> anyhow::Result<()> {
    Scenario::named("a-volume-fills-up-and-recovers").run(async |test| {
        start(test, "300Mi").await?;
        let fill = test.exec("writer", &["dd", "if=/dev/zero", "of=/data/fill", "bs=1M", "count=400"]).await?;
        assert_eq!(fill.code, 1, "400 MiB fitted into 300: {fill:?}");
        assert!(fill.stderr.contains("No space left on device"), "{fill:?}");
        shell(test, "rm /data/fill && echo well > /data/note && cat /data/note").await?;
        Ok(())
    })
}

#[test]
fn a_volume_goes_with_its_claim() -> anyhow::Result<()> {
    Scenario::named("a-volume-goes-with-its-claim").run(async |test| {
        start(test, "300Mi").await?;
        let claim = test.api::<PersistentVolumeClaim>().get("data").await?;
        let volume = claim.spec.and_then(|spec| spec.volume_name).expect("a bound claim names its volume");
        test.delete_and_wait::<Pod>("writer").await?;
        test.delete_and_wait::<PersistentVolumeClaim>("data").await?;
        let volumes = Api::<PersistentVolume>::all(test.client());
        wait_for_object(volumes, &volume, "the volume to be reclaimed", PATIENCE, |volume| match volume {
            None => Verdict::Met(()),
            Some(volume) => Verdict::NotYet(format!(
                "its phase is {:?}",
                volume.status.as_ref().and_then(|status| status.phase.clone())
            )),
        })
        .await?;
        Ok(())
    })
}

async fn start(test: &Test, size: &str) -> anyhow::Result<Pod> {
    test.apply(&workload::claim("data", size)).await?;
    test.apply(&workload::echo_pod_with_claim("writer", "data")).await?;
    test.wait_for_pod("writer").await
}

async fn shell(test: &Test, script: &str) -> anyhow::Result<String> {
    test.exec("writer", &["sh", "-c", script]).await?.success()
}

async fn size_in_mebibytes(test: &Test) -> anyhow::Result<u64> {
    let output = shell(test, "df --block-size=1M --output=size /data | tail -n 1").await?;
    Ok(output.trim().parse()?)
}

fn capacity(claim: &PersistentVolumeClaim) -> Option<String> {
    Some(claim.status.as_ref()?.capacity.as_ref()?.get("storage")?.0.clone())
}
