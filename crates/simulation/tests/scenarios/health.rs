//! Statuses as the planner writes them, committed, and what tools make of them: kstatus, which Flux goes by, and Argo CD with the check
//! in `docs/argocd-health.lua`. `UPDATE_GOLDEN=1 cargo test -p simulation --test scenarios` rewrites them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test that cannot go on fails

use crate::argocd;
use crate::kstatus::{Kstatus, compute};
use crate::support::{Outcome, compare, ends_whole, primary_of, replica_of, write_keys};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};
use simulation::{Setup, Stage, Whole};

fn whole(stage: &Stage) -> &Whole {
    stage.operators[0].whole.as_ref().unwrap()
}

fn ready(seed: u64) -> Result<Stage, String> {
    let mut stage = Stage::whole(seed, &Setup::default())?;
    ends_whole(&mut stage, 60_000)?;
    write_keys(&mut stage, "cache");
    stage.run(1_000)?;
    Ok(stage)
}

/// What these tools read of the ValkeyCluster.
fn object(stage: &Stage) -> Value {
    let whole = whole(stage);
    let metadata = &whole.spec.metadata;
    let status = serde_json::to_value(&whole.status).unwrap();
    let read =
        ["observedGeneration", "phase", "plan", "conditions"].map(|name| (name.to_owned(), status[name].clone()));
    let mut object = json!({
        "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster",
        "metadata": { "name": metadata.name, "namespace": metadata.namespace, "generation": metadata.generation },
        "spec": whole.spec.spec,
        "status": serde_json::Map::from_iter(read.into_iter().filter(|(_, value)| !value.is_null())),
    });
    if let Some(at) = &metadata.deletion_timestamp {
        object["metadata"]["deletionTimestamp"] = json!(at);
    }
    object
}

fn judged(stage: &Stage, name: &str, expected: (Kstatus, &str)) -> Outcome {
    let object = object(stage);
    compare(&format!("statuses/{name}.yaml"), &api::yaml::to_string(&object).map_err(|error| error.to_string())?)?;
    let found = (compute(&object), argocd::health(&object)?);
    assert_eq!((found.0, found.1.as_str()), expected, "{name}");
    Ok(())
}

fn is(stage: &Stage, condition: &str, status: &str) -> bool {
    let conditions = whole(stage).status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|found| found.type_ == condition && found.status == status)
}

/// Runs until the condition has this status.
fn until(stage: &mut Stage, condition: &str, status: &str) -> Outcome {
    let limit = stage.world.now + 60_000;
    while !is(stage, condition, status) {
        if stage.world.now > limit {
            return Err(format!("{condition} does not become {status}\n{}", stage.complaint()));
        }
        stage.tick()?;
    }
    Ok(())
}

/// The Events about Ready since so many: whether they are warnings.
fn warnings(stage: &Stage, since: usize) -> Vec<bool> {
    whole(stage).notices.iter().skip(since).map(|notice| notice.warning).collect()
}

#[test]
fn a_new_cluster_is_in_progress_until_it_is_ready() -> Outcome {
    let mut stage = Stage::whole(1, &Setup::default())?;
    until(&mut stage, "Ready", "False")?;
    judged(&stage, "forming", (Kstatus::InProgress, "Progressing"))?;
    ends_whole(&mut stage, 60_000)?;
    judged(&stage, "ready", (Kstatus::Current, "Healthy"))?;
    assert_eq!(warnings(&stage, 0), [false], "its formation is no warning");
    Ok(())
}

#[test]
fn a_spec_that_was_not_looked_at_yet_is_in_progress() -> Outcome {
    let stage = ready(2)?;
    let mut object = object(&stage);
    object["metadata"]["generation"] = json!(2);
    assert_eq!((compute(&object), argocd::health(&object)?.as_str()), (Kstatus::InProgress, "Progressing"));
    object["status"] = Value::Null;
    assert_eq!(argocd::health(&object)?, "Progressing");
    Ok(())
}

#[test]
fn a_restarting_replica_is_no_outage_and_told_once() -> Outcome {
    let mut stage = ready(3)?;
    let (replica, told) = (replica_of(&stage, &primary_of(&stage, 0)), whole(&stage).notices.len());
    stage.world.kill(&replica);
    until(&mut stage, "Ready", "False")?;
    assert!(is(&stage, "Available", "True"), "{}", stage.complaint());
    judged(&stage, "replica-restarting", (Kstatus::InProgress, "Progressing"))?;
    while !is(&stage, "Ready", "True") {
        assert!(is(&stage, "Available", "True"), "{}", stage.complaint());
        stage.tick()?;
    }
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(warnings(&stage, told), [true, false]);
    Ok(())
}

#[test]
fn a_lost_primary_is_an_outage_until_its_replica_leads() -> Outcome {
    let mut stage = ready(4)?;
    stage.world.kill(&primary_of(&stage, 0));
    until(&mut stage, "Available", "False")?;
    judged(&stage, "primary-lost", (Kstatus::InProgress, "Degraded"))?;
    until(&mut stage, "Available", "True")?;
    ends_whole(&mut stage, 60_000)
}

#[test]
fn a_paused_cluster_serves_and_is_not_current() -> Outcome {
    let mut stage = ready(5)?;
    let told = whole(&stage).notices.len();
    stage.operators[0].edit(|spec| spec.paused = Some(true));
    stage.run(1_000)?;
    assert!(is(&stage, "Ready", "True") && is(&stage, "Available", "True"));
    judged(&stage, "paused", (Kstatus::InProgress, "Suspended"))?;
    assert_eq!(warnings(&stage, told), [] as [bool; 0]);
    Ok(())
}

#[test]
fn a_spec_that_cannot_be_read_has_failed_and_is_mended_by_the_next() -> Outcome {
    let mut stage = ready(6)?;
    stage.operators[0].edit(|spec| spec.master_count = Some(2));
    stage.run(1_000)?;
    assert!(is(&stage, "Available", "True"), "what is served goes on, and is still looked at");
    judged(&stage, "invalid-spec", (Kstatus::Failed, "Degraded"))?;
    let primary = primary_of(&stage, 0);
    stage.world.kill(&primary);
    until(&mut stage, "Available", "False")?;
    until(&mut stage, "Available", "True")?;
    stage.operators[0].edit(|spec| spec.master_count = Some(3));
    stage.run(1_000)?;
    assert_eq!(compute(&object(&stage)), Kstatus::Current);
    Ok(())
}

#[test]
fn a_used_up_quota_has_failed_and_more_replicas_are_no_warning() -> Outcome {
    let mut stage = ready(7)?;
    let told = whole(&stage).notices.len();
    stage.operators[0].edit(|spec| spec.replicas_per_master = Some(2));
    stage.run(300)?;
    assert!(is(&stage, "Ready", "False"));
    ends_whole(&mut stage, 60_000)?;
    assert_eq!(warnings(&stage, told), [false], "somebody asked for it, and it is told when it is there");
    stage.kubernetes.as_mut().unwrap().quota = Some(9);
    stage.operators[0].edit(|spec| spec.replicas_per_master = Some(3));
    until(&mut stage, "Stalled", "True")?;
    judged(&stage, "quota-used-up", (Kstatus::Failed, "Degraded"))
}

#[test]
fn pods_that_wait_for_a_restart_serve_and_are_not_current() -> Outcome {
    let mut stage = ready(8)?;
    stage.operators[0].edit(|spec| {
        let limits = [("memory".to_owned(), Quantity("1Gi".to_owned()))].into();
        spec.resources = Some(api::cluster::Resources { limits: Some(limits), ..Default::default() });
    });
    stage.run(1_000)?;
    assert!(is(&stage, "Ready", "True") && is(&stage, "RestartRequired", "True"));
    judged(&stage, "restart-required", (Kstatus::InProgress, "Suspended"))
}

#[test]
fn a_cluster_that_is_being_deleted_is_terminating() -> Outcome {
    let mut stage = ready(9)?;
    let Stage { world, operators, .. } = &mut stage;
    operators[0].whole.as_mut().unwrap().delete(world);
    operators[0].stir();
    stage.run(1_000)?;
    judged(&stage, "being-deleted", (Kstatus::Terminating, "Progressing"))
}
