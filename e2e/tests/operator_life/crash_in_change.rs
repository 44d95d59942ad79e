//! An operator killed after any write of a change that replaces the StatefulSet under running pods: between letting go of the old one
//! and making the new one the pods belong to nobody.

use crate::{
    crash::{REASON, TOO_MANY},
    own_operator::{OwnOperator, forget_logs},
};
use anyhow::{Context, Result};
use e2e::{Cluster, Scenario, Test, Verdict, cluster, operator::StoppedOperator};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use serde_json::{Value, json};

#[test]
fn an_operator_killed_after_any_write_of_a_change_harms_no_pod() -> Result<()> {
    let scenario = Scenario::named("an-operator-killed-after-any-write-of-a-change");
    scenario.alone(REASON).run(async |test| {
        let stopped = StoppedOperator::stop(test).await?;
        let changing = Cluster::create_unattended(test, "changing", change(0)).await?;
        made(test, &changing).await?;
        let lives = cluster::lives(&changing.pods().await?);
        let mut survived = None;
        for last in 1..TOO_MANY {
            let died = killed_after(test, &changing, last).await?;
            assert_eq!(cluster::lives(&changing.pods().await?), lives, "a pod was harmed by a kill at write {last}");
            if !died {
                survived = Some(last);
                break;
            }
        }
        let writes = survived.context("the operator never came to rest")? - 1;
        test.note(format!("killed after each of {writes} writes"));
        // Three claims, the StatefulSet let go and made anew, ConfigMap, read Service, three pods told.
        assert!(writes >= 10, "only {writes} writes");
        stopped.start().await?;
        forget_logs(test)
    })
}

async fn made(test: &Test, changing: &Cluster<'_>) -> Result<()> {
    let operator = OwnOperator::start(test, "first", None).await?;
    changing.ready().await?;
    operator.is_quiet(test).await
}

/// Volumes grow from change to change, since they cannot shrink.
fn change(number: usize) -> Value {
    json!({
        "pvc": {"storageSize": size(number)},
        "readService": {"enabled": number % 2 == 1},
        "config": {"hz": (10 + number).to_string()},
    })
}

fn size(number: usize) -> String {
    format!("{}Mi", 300 + 4 * number)
}

/// False when the operator came to rest before its write of this number.
async fn killed_after(test: &Test, changing: &Cluster<'_>, last: usize) -> Result<bool> {
    changing.edit(change(last)).await?;
    let mut victim = OwnOperator::start(test, &format!("victim-{last}"), Some(last)).await?;
    let died = tokio::select! {
        () = victim.proxy.reached() => true,
        result = arrived_and_quiet(changing, last, &victim) => { result?; false }
    };
    victim.kill()?;
    if died {
        let _successor = OwnOperator::start(test, &format!("successor-{last}"), None).await?;
        let at = format!("after a kill at {:?}", victim.proxy.writes().last());
        arrived(changing, last).await.context(at)?;
    }
    Ok(died)
}

async fn arrived_and_quiet(changing: &Cluster<'_>, number: usize, operator: &OwnOperator) -> Result<()> {
    arrived(changing, number).await?;
    operator.is_quiet(changing.test).await
}

async fn arrived(changing: &Cluster<'_>, number: usize) -> Result<()> {
    let test = changing.test;
    changing.ready().await?;
    test.wait_for_list::<PersistentVolumeClaim, _>(&changing.selector(), "the claims", e2e::PATIENCE, |claims| {
        let asked: Vec<_> = claims.iter().map(requested).collect();
        Verdict::when(asked.len() == 3 && asked.iter().all(|found| *found == size(number)), || format!("{asked:?}"))
    })
    .await?;
    test.wait_for_object::<Service, _>("changing-read", "the read Service", e2e::PATIENCE, |service| {
        Verdict::when(service.is_some() == (number % 2 == 1), || format!("there: {}", service.is_some()))
    })
    .await?;
    changing.runs_with(3, &[("hz", &(10 + number).to_string())]).await
}

fn requested(claim: &PersistentVolumeClaim) -> String {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    requests.and_then(|requests| requests.get("storage")).map(|size| size.0.clone()).unwrap_or_default()
}
