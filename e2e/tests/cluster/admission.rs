//! Bad input is refused by the API server itself, with the field and the way out. The same table as in the API's own tests, for real.

use anyhow::{Context, Result};
use api::cluster::ValkeyCluster;
use e2e::{Scenario, Test, operator};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    name: Option<String>,
    /// Makes it an update of this.
    before: Option<Value>,
    /// What the operator wrote of it.
    status: Option<Value>,
    spec: Value,
    refused: Option<String>,
    named: Option<String>,
}

#[test]
fn every_case_of_the_table_is_accepted_or_refused_as_it_says() -> Result<()> {
    Scenario::named("every-case-of-the-admission-table").run(async |test| {
        operator::require(test).await?;
        let text = include_str!("../../../crates/api/tests/admission.yaml");
        let cases: Vec<Case> = serde_yaml_ng::from_str(text)?;
        assert!(cases.len() >= 60, "the table has only {} cases", cases.len());
        let mut wrong = Vec::new();
        for (number, case) in cases.iter().enumerate().filter(|(_, case)| !has_shards(case)) {
            let answer = ask(test, number, case).await?;
            if !is_right(case, &answer) {
                wrong.push(format!("{}: {}", case.case, answer.err().unwrap_or_else(|| "accepted".to_owned())));
            }
        }
        assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
        Ok(())
    })
}

/// Here the operator alone writes the status, and of a paused cluster it writes no shards: those cases are for the API's own test.
fn has_shards(case: &Case) -> bool {
    let shards = case.status.as_ref().and_then(|status| status["shards"].as_array());
    shards.is_some_and(|shards| !shards.is_empty())
}

fn is_right(case: &Case, answer: &Result<(), String>) -> bool {
    match (&case.refused, answer) {
        (None, Ok(())) => true,
        (Some(part), Err(message)) => {
            message.contains(part) && case.named.as_ref().is_none_or(|name| message.contains(name))
        }
        _ => false,
    }
}

/// Dry runs, so that nothing has to be cleared away; what an update starts from must be there, and is paused.
async fn ask(test: &Test, number: usize, case: &Case) -> Result<Result<(), String>> {
    let clusters = clusters(test);
    let name = case.name.clone().unwrap_or_else(|| format!("case-{number}"));
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let Some(before) = &case.before else {
        return verdict(clusters.create(&dry_run, &object(&name, &case.spec)?).await);
    };
    let made = clusters.create(&PostParams::default(), &object(&name, &paused(before))?).await;
    let made = made.with_context(|| format!("{}: make what the update starts from", case.case))?;
    let mut changed = object(&name, &paused(&case.spec))?;
    // The operator writes the status meanwhile: an update without a version overwrites whatever is there.
    changed.metadata.uid = made.metadata.uid;
    let latest = clusters.get(&name).await?;
    changed.metadata.resource_version = latest.metadata.resource_version;
    match clusters.replace(&name, &dry_run, &changed).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Box::pin(retry(test, &name, changed)).await,
        answer => verdict(answer),
    }
}

async fn retry(test: &Test, name: &str, mut changed: DynamicObject) -> Result<Result<(), String>> {
    let clusters = clusters(test);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let settled = e2e::Cluster::named(test, name).says("Progressing", "False", Some("Paused")).await;
    settled.with_context(|| format!("{name} is paused and reported so"))?;
    changed.metadata.resource_version = clusters.get(name).await?.metadata.resource_version;
    verdict(clusters.replace(name, &dry_run, &changed).await)
}

fn verdict(answer: kube::Result<DynamicObject>) -> Result<Result<(), String>> {
    match answer {
        Ok(_) => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(Err(status.message.clone())),
        Err(error) => Err(error).context("ask the API server"),
    }
}

fn clusters(test: &Test) -> Api<DynamicObject> {
    Api::namespaced_with(test.client(), &test.namespace, &ApiResource::erase::<ValkeyCluster>(&()))
}

fn paused(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["paused"] = json!(true);
    spec
}

fn object(name: &str, spec: &Value) -> Result<DynamicObject> {
    let text =
        json!({"apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "metadata": {"name": name}, "spec": spec});
    Ok(serde_json::from_value(text)?)
}
