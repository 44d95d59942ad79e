//! One root follows another and the lead moves meanwhile: the next leader finishes what the first began, and no sidecar is missed.

use crate::stored::{
    all_show, another_leaf, another_root, authorities, connected, delete_secret, leaf, operator_secrets, root,
    root_says, transitions, want_root,
};
use anyhow::{Context, Result, ensure};
use api::certificates::names;
use e2e::{
    Cluster, PATIENCE, Scenario, Test, Verdict, cluster, measurement, operator,
    replicas::{delete, leader, scale},
};
use futures::future::{join, try_join_all};
use serde_json::json;
use std::time::{Duration, Instant};

const PODS: u32 = 3;
/// Prints, again and again until told to stop, when it asked the sidecar and whether that had a line.
const ASK: &str = r"while [ ! -e /tmp/asked-enough ]; do
  exec 3<>/dev/tcp/127.0.0.1/8081
  printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
  connected=$(grep -c 'line_connected 1$' <&3)
  echo ${EPOCHREALTIME/./} $connected
  sleep 0.2
done";

#[test]
fn a_root_is_handed_over_although_the_lead_moves_in_the_middle() -> Result<()> {
    let scenario = Scenario::named("a-root-is-handed-over");
    scenario.alone("it changes the root and scales the operator that all tests need").run(async |test| {
        test.also_collect(&operator::namespace());
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        scale(test, 2).await?;
        let outcome = unnoticed(test, &poc).await;
        let back = take_back(test).await;
        scale(test, 1).await?;
        outcome.and(back)
    })
}

/// A Secret that does not exist yet: the operator makes a root in it.
fn wanted(test: &Test) -> String {
    format!("root-of-{}", test.namespace)
}

async fn take_back(test: &Test) -> Result<()> {
    want_root(test, names::ROOT_SECRET).await?;
    another_root(test, "none of these").await?;
    root_says(test, "Valid").await?;
    delete_secret(&operator_secrets(test), &wanted(test)).await
}

async fn unnoticed(test: &Test, poc: &Cluster<'_>) -> Result<()> {
    connected(poc, PODS as usize).await?;
    let (lives, before) = (cluster::lives(&poc.pods().await?), transitions(poc).await?);
    let absence = longest_absence(poc, handed_over(test, poc)).await?;
    measurement::record(test, "longest time a sidecar had no line while root and leader changed", absence)?;
    connected(poc, PODS as usize).await?;
    assert_eq!(transitions(poc).await?, before, "Ready or SidecarsConnected changed");
    assert_eq!(cluster::lives(&poc.pods().await?), lives, "pods were restarted");
    Ok(())
}

async fn handed_over(test: &Test, poc: &Cluster<'_>) -> Result<()> {
    let (before, own, (first, _)) = (root(test).await?, leaf(poc).await?, leader(test, None).await?);
    want_root(test, &wanted(test)).await?;
    test.wait_for("the first step of the hand-over", PATIENCE, async || {
        let trusted = trusted(test).await?;
        Ok(Verdict::when(trusted == 2, || format!("{trusted} roots are trusted")))
    })
    .await?;
    delete(test, &first).await?;
    let began = Instant::now();
    ensure!(trusted(test).await? == 2, "the hand-over was done before the lead moved");
    leader(test, Some(&first)).await?;
    measurement::record(test, "another leader in the middle of a hand-over", began.elapsed())?;
    let after = another_root(test, &before).await?;
    measurement::record(test, "one root after another, under two leaders", began.elapsed())?;
    let new = another_leaf(poc, &own).await?;
    assert_eq!(new.root.as_str(), after);
    all_show(poc, &new, PODS as usize).await
}

async fn trusted(test: &Test) -> Result<usize> {
    let status = authorities(test).get(names::ROOT).await?.status.context("the ValkeyCA has no status")?;
    Ok(status.trusted.len())
}

/// The longest any sidecar of the cluster was without a line while something else happened.
async fn longest_absence(poc: &Cluster<'_>, happening: impl Future<Output = Result<()>>) -> Result<Duration> {
    let asking = try_join_all((0..PODS).map(|ordinal| in_pod(poc, ordinal, ASK)));
    let happening = async {
        let outcome = happening.await;
        try_join_all((0..PODS).map(|ordinal| in_pod(poc, ordinal, "touch /tmp/asked-enough"))).await?;
        outcome
    };
    let (told, outcome) = join(asking, happening).await;
    outcome?;
    let absences: Vec<Duration> = told?.iter().map(|lines| absence(lines)).collect::<Result<_>>()?;
    absences.into_iter().max().context("nobody was asked")
}

async fn in_pod(poc: &Cluster<'_>, ordinal: u32, script: &str) -> Result<String> {
    poc.test.exec_in(&poc.pod(ordinal), "valkey", &["bash", "-c", script]).await?.success()
}

/// The longest time between two answers that said *connected*: never less than there was no line.
fn absence(told: &str) -> Result<Duration> {
    let connected = told.lines().filter_map(|line| line.strip_suffix(" 1"));
    let moments: Vec<u64> = connected.map(str::parse).collect::<Result<_, _>>().context("a moment is no number")?;
    ensure!(moments.len() > 10, "the sidecar was hardly ever connected: {told}");
    let longest = moments.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or_default();
    Ok(Duration::from_micros(longest))
}
