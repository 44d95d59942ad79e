//! An operator killed at every step of a formation: each of its successors goes on where the nodes are, and repeating a step does no harm.

use crate::{
    crash::{REASON, TOO_MANY},
    own_operator::{OwnOperator, forget_logs},
};
use anyhow::{Result, ensure};
use e2e::{Cluster, Scenario, Verdict, cluster, measurement, operator::StoppedOperator, sound};
use serde_json::json;
use std::time::Instant;

#[test]
fn steps_repeated_by_the_next_operator_find_no_slot_busy() -> Result<()> {
    let scenario = Scenario::named("steps-repeated-by-the-next-operator-find-no-slot-busy");
    scenario.alone(REASON).run(async |test| {
        let stopped = StoppedOperator::stop(test).await?;
        let forming = Cluster::create_unattended(test, "forming", json!({"replicasPerMaster": 1})).await?;
        let (began, mut steps) = (Instant::now(), Vec::new());
        let mut last = OwnOperator::start(test, "operator-0", None).await?;
        while let Some(step) = next_step(&forming, &last, &steps).await? {
            last.kill()?;
            ensure!(!last.log()?.to_lowercase().contains("busy"), "operator {} found a slot busy", last.name);
            steps.push(step);
            ensure!(steps.len() < TOO_MANY, "it never ends: {steps:?}");
            last = OwnOperator::start(test, &format!("operator-{}", steps.len()), None).await?;
        }
        measurement::record(test, &format!("formed by {} operators", steps.len() + 1), began.elapsed())?;
        test.note(format!("they were killed at: {steps:#?}"));
        ensure!(steps.len() >= 3, "too few steps for a formation: {steps:?}");
        sound(&forming, 3, 1).await?;
        ensure!(!last.log()?.to_lowercase().contains("busy"), "the last operator found a slot busy");
        drop(last);
        stopped.start().await?;
        forget_logs(test)
    })
}

/// The first thing it has done to a node, or a step of the formation that nobody has come to yet, as soon as it is there; None when the
/// cluster is Ready before.
async fn next_step(forming: &Cluster<'_>, operator: &OwnOperator, before: &[String]) -> Result<Option<String>> {
    let what = format!("a step of {}", operator.name);
    forming
        .test
        .wait_for(&what, e2e::PATIENCE, async || {
            if let Some(line) = operator.log()?.lines().find(|line| line.contains("\"done: ")) {
                return Ok(Verdict::Met(Some(line.to_owned())));
            }
            let object = forming.get().await?;
            let running = object.status.as_ref().and_then(|status| status.orchestration.as_ref());
            let step = running.map(|running| format!("{:?}", running.step));
            if let Some(step) = step.filter(|step| !before.contains(step)) {
                return Ok(Verdict::Met(Some(step)));
            }
            let ready = cluster::condition(&object, "Ready").is_some_and(|condition| condition.status == "True");
            Ok(if ready { Verdict::Met(None) } else { Verdict::NotYet(format!("{:?}", object.status)) })
        })
        .await
}
