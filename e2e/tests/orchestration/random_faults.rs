//! One random fault after the other under load, each healed before the next: nothing that a replica had is lost. Minutes long, so only
//! `make test-long` runs it. The seed is in the timeline; RANDOM_FAULTS_SEED repeats a run.

use crate::formed::{formed, loaded_twice, on_volumes, stopped_whole};
use anyhow::{Context, Result};
use e2e::{
    Cluster, Scenario, Test, operator, sound,
    view::{Topology, topology},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

const FAULTS: usize = 55;
/// Longer than Valkey needs to call a node failed, shorter than a liveness probe takes to end it.
const FROZEN: Duration = Duration::from_secs(12);
const LIMIT: Duration = Duration::from_secs(3600);
const REASON: &str = "it kills the operator, and its load wants the machine";

#[derive(Clone, Copy, Debug)]
enum Fault {
    Delete,
    ForceDelete,
    KillServer,
    KillSidecar,
    KillOperator,
    Freeze,
    KillTwoShards,
}

const ALL: [Fault; 7] = [
    Fault::Delete,
    Fault::ForceDelete,
    Fault::KillServer,
    Fault::KillSidecar,
    Fault::KillOperator,
    Fault::Freeze,
    Fault::KillTwoShards,
];

#[test]
#[ignore = "55 faults take half an hour"]
fn random_faults_without_volumes_lose_nothing_on_9_1() -> Result<()> {
    survives("random-faults-without-volumes-lose-nothing", "9.1", json!({}))
}

#[test]
#[ignore = "55 faults take half an hour"]
fn random_faults_with_volumes_lose_nothing_on_8_1() -> Result<()> {
    survives("random-faults-with-volumes-lose-nothing", "8.1", on_volumes())
}

fn survives(name: &str, version: &str, more: Value) -> Result<()> {
    Scenario::named(name).alone(REASON).timeout(LIMIT).run(async |test| {
        let seed = std::env::var("RANDOM_FAULTS_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        test.note(format!("RANDOM_FAULTS_SEED={seed}"));
        let mut random = fastrand::Rng::with_seed(seed);
        let cluster = formed(test, "poc", version, more).await?;
        let load = loaded_twice(&cluster).await?;
        let mut healed = BTreeMap::<String, Vec<Duration>>::new();
        for number in 1..=FAULTS {
            let before = topology(&cluster).await?;
            let fault = random.choice(ALL).context("there are faults to choose from")?;
            test.note(format!("fault {number} of {FAULTS}: {fault:?}"));
            strike(&cluster, fault, &before, &mut random).await?;
            let struck = Instant::now();
            sound(&cluster, 3, 1).await.with_context(|| format!("after fault {number}, {fault:?}, seed {seed}"))?;
            healed.entry(format!("{fault:?}")).or_default().push(struck.elapsed());
            load.flows().await?;
        }
        tell(healed);
        stopped_whole(load).await.with_context(|| format!("seed {seed}"))?;
        Ok(())
    })
}

/// A number for people: what it may be depends on the machine, and on how long the kubelet holds a container back that ended before.
fn tell(healed: BTreeMap<String, Vec<Duration>>) {
    for (fault, mut times) in healed {
        times.sort();
        let seconds: Vec<String> = times.iter().map(|time| format!("{:.1}", time.as_secs_f64())).collect();
        println!("{fault}, seconds until sound again: {}", seconds.join(" "));
    }
}

async fn strike(cluster: &Cluster<'_>, fault: Fault, before: &Topology, random: &mut fastrand::Rng) -> Result<()> {
    let test = cluster.test;
    let victim = random.choice(&before.nodes).context("there are nodes")?.pod.as_str();
    match fault {
        Fault::Delete => delete(test, victim, &[]).await,
        Fault::ForceDelete => delete(test, victim, &["--grace-period=0", "--force"]).await,
        Fault::KillServer => test.kill_pod(victim, Some("valkey")).await,
        Fault::KillSidecar => test.kill_pod(victim, Some("sidecar")).await,
        Fault::KillOperator => kill_operator(test).await,
        Fault::Freeze => freeze(test, victim).await,
        Fault::KillTwoShards => {
            let (first, second) = (before.shard(0)?.0, before.shard(1)?.0);
            tokio::try_join!(test.kill_pod(&first.pod, Some("valkey")), test.kill_pod(&second.pod, Some("valkey")))?;
            Ok(())
        }
    }
}

async fn delete(test: &Test, pod: &str, how: &[&str]) -> Result<()> {
    let arguments = [&["delete", "pod", pod, "--wait=false"], how].concat();
    test.kubectl(&arguments).await?.success().map(drop)
}

/// Without grace: nobody hands over the lead.
async fn kill_operator(test: &Test) -> Result<()> {
    let pods = Api::<Pod>::namespaced(test.client(), &operator::namespace());
    let selection = ListParams::default().labels("app.kubernetes.io/component=operator");
    for pod in pods.list(&selection).await.context("list the operator's pods")? {
        pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await.context("kill the operator")?;
    }
    operator::require(test).await
}

async fn freeze(test: &Test, pod: &str) -> Result<()> {
    test.signal_pod(pod, Some("valkey"), "stop").await?;
    tokio::time::sleep(FROZEN).await;
    test.signal_pod(pod, Some("valkey"), "cont").await
}
