//! Objects of a cluster that somebody changes or deletes are back at once; what others add stays; what is no longer wanted goes.

use anyhow::{Context, Result};
use e2e::{Cluster, PATIENCE, Scenario, Test, Verdict, cluster, measurement, wait_for_object};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PropagationPolicy},
};
use serde_json::{Value, json};
use std::time::Instant;

struct Child {
    resource: (&'static str, &'static str, &'static str),
    name: &'static str,
    /// A field of ours, and what somebody makes of it.
    field: &'static str,
    spoiled: Value,
}

fn children() -> Vec<Child> {
    let child = |resource, name, field, spoiled| Child { resource, name, field, spoiled };
    let service = ("", "Service", "services");
    vec![
        child(("", "ServiceAccount", "serviceaccounts"), "drift-valkey", "/automountServiceAccountToken", json!(true)),
        child(("", "ConfigMap", "configmaps"), "drift-config", "/data/settings.json", json!("{}")),
        child(service, "drift-headless", "/spec/publishNotReadyAddresses", json!(false)),
        child(service, "drift", "/spec/selector", json!({"app.kubernetes.io/instance": "another"})),
        child(service, "drift-read", "/spec/selector/valkey.io~1role", json!("primary")),
        child(("networking.k8s.io", "NetworkPolicy", "networkpolicies"), "drift", "/spec/ingress", json!([{}])),
        child(("policy", "PodDisruptionBudget", "poddisruptionbudgets"), "drift", "/spec/minAvailable", json!(0)),
        child(STATEFUL_SET, "drift", "/spec/template/spec/containers/0/image", json!("docker.io/valkey/valkey:8.1")),
        child(STATEFUL_SET, "drift", "/spec/updateStrategy", json!({"type": "RollingUpdate"})),
        child(STATEFUL_SET, "drift", "/metadata/ownerReferences", json!([])),
        child(
            ("", "ConfigMap", "configmaps"),
            "drift-config",
            "/metadata/labels/app.kubernetes.io~1part-of",
            json!("x"),
        ),
    ]
}

const STATEFUL_SET: (&str, &str, &str) = ("apps", "StatefulSet", "statefulsets");

#[test]
fn a_changed_object_is_repaired_at_once_and_foreign_marks_stay() -> Result<()> {
    Scenario::named("a-changed-object-is-repaired-at-once").run(async |test| {
        let drift = Cluster::create(test, "drift", json!({"readService": {"enabled": true}})).await?;
        drift.ready().await?;
        let lives = cluster::lives(&drift.pods().await?);
        for child in children() {
            mark_as_foreign(test, &child).await?;
            repairs(test, &child).await.with_context(|| format!("{:?} {}", child.resource, child.field))?;
        }
        evicts_a_stranger(test).await?;
        for child in children() {
            let object = child.api(test).get(child.name).await?;
            assert_eq!(object.labels().get("team").map(String::as_str), Some("theirs"), "{}", child.field);
            assert_eq!(object.annotations().get("note").map(String::as_str), Some("theirs"), "{}", child.field);
        }
        drift.ready().await?;
        assert_eq!(cluster::lives(&drift.pods().await?), lives, "repairing objects restarted pods");
        Ok(())
    })
}

#[test]
fn a_deleted_object_is_back_at_once() -> Result<()> {
    Scenario::named("a-deleted-object-is-back-at-once").run(async |test| {
        let drift = Cluster::create(test, "drift", json!({"readService": {"enabled": true}})).await?;
        drift.ready().await?;
        let lives = cluster::lives(&drift.pods().await?);
        let mut done = Vec::new();
        for child in children() {
            if !done.contains(&(child.resource, child.name)) {
                // Its pods live on without it, until the next one takes them over.
                let orphans = child.resource == STATEFUL_SET;
                let propagation = if orphans { PropagationPolicy::Orphan } else { PropagationPolicy::Background };
                comes_back(test, &child, propagation).await?;
                done.push((child.resource, child.name));
            }
        }
        drift.ready().await?;
        assert_eq!(cluster::lives(&drift.pods().await?), lives, "a new StatefulSet must take the pods over");
        let stateful_set = children().into_iter().find(|child| child.resource == STATEFUL_SET).unwrap();
        comes_back(test, &stateful_set, PropagationPolicy::Background).await?;
        drift.ready().await.map(drop)
    })
}

#[test]
fn what_the_spec_no_longer_asks_for_goes() -> Result<()> {
    Scenario::named("what-the-spec-no-longer-asks-for-goes").run(async |test| {
        let fields = json!({"readService": {"enabled": true}, "exporter": {"enabled": true}});
        let spare = Cluster::create(test, "spare", fields).await?;
        spare.ready().await?;
        assert_eq!(ports_of(test, "spare-headless").await?, ["valkey", "bus", "metrics"]);
        spare.edit(json!({"readService": null, "exporter": null})).await?;
        let gone = "the read Service to be gone";
        let services = test.api::<k8s_openapi::api::core::v1::Service>();
        wait_for_object(services, "spare-read", gone, PATIENCE, |service| {
            Verdict::when(service.is_none(), || "it is there".to_owned())
        })
        .await?;
        // The pods keep their exporter until they are replaced, and say so.
        let waiting = spare.says("RestartRequired", "True", Some("RestartPending")).await?;
        assert!(waiting.message.contains("exporter"), "{}", waiting.message);
        assert_eq!(ports_of(test, "spare-headless").await?, ["valkey", "bus"]);
        spare.replace_pods(0..3).await?;
        spare.says("RestartRequired", "False", Some("NothingPending")).await?;
        let containers = spare.pods().await?[0].spec.as_ref().map(|spec| spec.containers.len());
        assert_eq!(containers, Some(1));
        Ok(())
    })
}

impl Child {
    fn api(&self, test: &Test) -> Api<DynamicObject> {
        let (group, kind, plural) = self.resource;
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
        Api::namespaced_with(test.client(), &test.namespace, &resource)
    }

    fn value_in(&self, object: &DynamicObject) -> Result<Value> {
        Ok(serde_json::to_value(object)?.pointer(self.field).cloned().unwrap_or_default())
    }
}

async fn mark_as_foreign(test: &Test, child: &Child) -> Result<()> {
    let marks = json!({"metadata": {"labels": {"team": "theirs"}, "annotations": {"note": "theirs"}}});
    child.api(test).patch(child.name, &PatchParams::default(), &Patch::Merge(&marks)).await?;
    Ok(())
}

async fn repairs(test: &Test, child: &Child) -> Result<()> {
    let ours = child.value_in(&child.api(test).get(child.name).await?)?;
    let spoiled = replace(child, test, child.field, &child.spoiled).await?;
    assert_ne!(child.value_in(&spoiled)?, ours, "the change changed nothing");
    let started = Instant::now();
    let what = format!("{} {} to have its {} again", child.resource.1, child.name, child.field);
    wait_for(child, test, &what, |object| Ok(child.value_in(object)? == ours)).await?;
    measurement::record(test, &format!("{} {} repaired", child.resource.1, child.field), started.elapsed())
}

/// A container that somebody adds would run beside Valkey with its data.
async fn evicts_a_stranger(test: &Test) -> Result<()> {
    let child = children().into_iter().find(|child| child.resource == STATEFUL_SET).unwrap();
    let stranger = json!({"name": "stranger", "image": "docker.io/valkey/valkey:9.1"});
    let operations = json!([{"op": "add", "path": "/spec/template/spec/containers/-", "value": stranger}]);
    let patch = Patch::Json::<()>(serde_json::from_value(operations)?);
    child.api(test).patch(child.name, &PatchParams::default(), &patch).await?;
    wait_for(&child, test, "the stranger to be out of the template", |object| {
        let containers = serde_json::to_value(object)?.pointer("/spec/template/spec/containers").cloned();
        Ok(containers.is_some_and(|list| list.as_array().is_some_and(|list| list.len() == 1)))
    })
    .await
}

async fn comes_back(test: &Test, child: &Child, propagation: PropagationPolicy) -> Result<()> {
    let before = child.api(test).get(child.name).await?;
    let ours = child.value_in(&before)?;
    let orphans = matches!(propagation, PropagationPolicy::Orphan);
    let parameters = DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() };
    let _still_ending = child.api(test).delete(child.name, &parameters).await?;
    let mut started = Instant::now();
    if orphans {
        is_gone(test, child, &before).await?;
        started = Instant::now();
    }
    let what = format!("{} {} to be there again", child.resource.1, child.name);
    wait_for(child, test, &what, |object| Ok(object.uid() != before.uid() && child.value_in(object)? == ours)).await?;
    measurement::record(test, &format!("{} {} made anew", child.resource.1, child.name), started.elapsed())
}

/// Letting go of dependents takes Kubernetes its time, which is not ours to answer for.
async fn is_gone(test: &Test, child: &Child, before: &DynamicObject) -> Result<()> {
    let what = format!("the old {} {} to be gone", child.resource.1, child.name);
    test.wait_for(&what, e2e::PATIENCE, async || {
        let found = child.api(test).get_opt(child.name).await?;
        Ok(Verdict::when(found.is_none_or(|found| found.uid() != before.uid()), || "it is there".to_owned()))
    })
    .await
}

async fn replace(child: &Child, test: &Test, path: &str, value: &Value) -> Result<DynamicObject> {
    let operations = json!([{"op": "replace", "path": path, "value": value}]);
    let patch = Patch::Json::<()>(serde_json::from_value(operations)?);
    Ok(child.api(test).patch(child.name, &PatchParams::default(), &patch).await?)
}

/// Polls: a watch of dynamic kinds would cost more lines than it saves milliseconds.
async fn wait_for(
    child: &Child,
    test: &Test,
    what: &str,
    judge: impl Fn(&DynamicObject) -> Result<bool>,
) -> Result<()> {
    test.wait_for(what, PATIENCE, async || {
        let Some(object) = child.api(test).get_opt(child.name).await? else {
            return Ok(Verdict::not_yet("it does not exist"));
        };
        Ok(Verdict::when(judge(&object)?, || format!("it has {:?}", child.value_in(&object).ok())))
    })
    .await
}

async fn ports_of(test: &Test, service: &str) -> Result<Vec<String>> {
    let service = test.api::<k8s_openapi::api::core::v1::Service>().get(service).await?;
    let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
    Ok(ports.into_iter().filter_map(|port| port.name).collect())
}
