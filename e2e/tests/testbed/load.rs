//! Load from the test's own process on bare Valkey pods: it reaches them by Service and by address, and it finds a loss.

use ::load::{Options, Report, testing};
use e2e::{
    ClusterLoad, Scenario, Test,
    load::{self, REACH},
    workload,
};
use k8s_openapi::api::core::v1::Pod;
use std::net::{IpAddr, SocketAddr};

const NAME: &str = "bare";

#[test]
fn load_on_healthy_pods_finds_every_write_again() -> anyhow::Result<()> {
    Scenario::named("load-on-healthy-pods-finds-every-write-again").needs_testbed(REACH).run(async |test| {
        // That nothing fails is the point here, and not how fast a busy machine answers.
        let load = start(test, |options| Options { timeout: e2e::PATIENCE, ..options }).await?;
        load.acknowledges(500).await?;
        let report = load.stop_sound().await?;
        assert!(report.errors.is_empty() && report.shards.len() == 3, "{report}");
        Ok(())
    })
}

#[test]
fn load_tells_when_a_killed_primary_comes_back_empty() -> anyhow::Result<()> {
    Scenario::named("load-tells-when-a-killed-primary-comes-back-empty").needs_testbed(REACH).run(async |test| {
        let load = start(test, |options| options).await?;
        load.acknowledges(500).await?;
        test.kill_pod(&format!("{NAME}-1"), None).await?;
        load.falters().await?;
        load.flows().await?;
        let report: Report = load.stop().await?;
        assert!(report.lost > 100 && report.wrong == 0, "{report}");
        assert!(report.longest_gap_ms > report.longest_gap_everywhere_ms, "{report}");
        Ok(())
    })
}

/// Three primaries without replicas and disks, one pod each.
async fn start(test: &Test, change: impl FnOnce(Options) -> Options) -> anyhow::Result<ClusterLoad<'_>> {
    for number in 0..3 {
        test.apply(&node(number)).await?;
    }
    test.apply(&workload::echo_service(NAME)).await?;
    let pods = test.wait_for_pods(&workload::selector(NAME), 3).await?;
    testing::form(&pods.iter().map(address).collect::<Vec<_>>(), 3).await?;
    let seed = load::service_address(test, NAME).await?;
    ClusterLoad::start_at(test, NAME, change(load::options([seed]))).await
}

fn node(number: u32) -> Pod {
    let mut pod = workload::echo_pod(NAME);
    pod.metadata.name = Some(format!("{NAME}-{number}"));
    let command = pod.spec.as_mut().unwrap().containers[0].command.as_mut().unwrap();
    command.extend(["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"].map(str::to_owned));
    pod
}

fn address(pod: &Pod) -> SocketAddr {
    let address: IpAddr = pod.status.as_ref().unwrap().pod_ip.as_ref().unwrap().parse().unwrap();
    SocketAddr::new(address, workload::PORT)
}
