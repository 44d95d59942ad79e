//! Files as people wrote them before there was an operator to try them on: what an API server really answers, and that the cluster comes up.

use anyhow::{Context, Result};
use api::cluster::ValkeyCluster;
use api::names::{annotation, label};
use e2e::{Cluster, Scenario, Test, cluster, operator};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const REFERENCE: &str = include_str!("../../../crates/api/tests/files/reference.yaml");
const DRAFT: &str = include_str!("../../../crates/api/tests/files/draft.yaml");
const SHORT_DRAFT: &str = include_str!("../../../crates/api/tests/files/short-draft.yaml");

/// The ValkeyCluster of a file.
fn valkey_cluster(file: &str) -> Result<Value> {
    let documents = serde_yaml_ng::Deserializer::from_str(file).map(Value::deserialize);
    let all: Vec<Value> = documents.collect::<Result<_, _>>().context("the file is no YAML")?;
    all.into_iter().find(|document| document["kind"] == "ValkeyCluster").context("the file has no ValkeyCluster")
}

/// What the API server says against it; empty when it takes it.
async fn refusal(test: &Test, object: &Value) -> Result<String> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(test.client(), &test.namespace, &ApiResource::erase::<ValkeyCluster>(&()));
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    match api.create(&dry_run, &serde_json::from_value(object.clone())?).await {
        Ok(_) => Ok(String::new()),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(status.message.clone()),
        Err(error) => Err(error).context("ask the API server"),
    }
}

#[test]
fn a_file_is_refused_in_words_that_say_what_to_write() -> Result<()> {
    Scenario::named("a-users-file-is-refused-in-words-that-help").run(async |test| {
        operator::require(test).await?;
        let of_type = |field: &str, kind: &str| format!("{field} in body must be of type string: \"{kind}\"");
        let mut reference = valkey_cluster(REFERENCE)?;
        let said = refusal(test, &reference).await?;
        assert!(said.contains(&of_type("spec.valkeyImage.tag", "number")), "{said}");
        reference["spec"]["valkeyImage"]["tag"] = json!("8.1");
        let said = refusal(test, &reference).await?;
        assert!(said.contains("leave tls out") && said.contains("leave acl out"), "{said}");
        for file in [DRAFT, SHORT_DRAFT] {
            let mut draft = valkey_cluster(file)?;
            let said = refusal(test, &draft).await?;
            assert!(
                said.contains(&of_type("spec.tls", "object")) && said.contains(&of_type("spec.acl", "object")),
                "{said}"
            );
            (draft["spec"]["tls"], draft["spec"]["acl"]) = (Value::Null, Value::Null);
            draft["spec"]["valkeyImage"] = json!({ "tag": "8.1" });
            let said = refusal(test, &draft).await?;
            assert!(said.contains("leave clusterType out") && said.contains("leave clusterPassword out"), "{said}");
            assert!(!said.contains("cluster-secret-pass"), "the password is repeated: {said}");
        }
        Ok(())
    })
}

/// With images, machines and a size that there are; without TLS and users, which are still to come. One pod for each of three machines:
/// the rule that keeps the pods apart is a hard one, and selects them by the label app.
fn reference_for_the_testbed() -> Result<Value> {
    let mut object = valkey_cluster(REFERENCE)?;
    let spec = object["spec"].as_object_mut().context("no spec")?;
    for gone in ["tls", "acl", "sidecarImage"] {
        spec.remove(gone);
    }
    spec.insert("valkeyImage".to_owned(), json!({ "name": cluster::IMAGE, "tag": "8.1", "imagePullSecrets": [] }));
    spec.insert("exporter".to_owned(), json!({ "enabled": true }));
    spec.insert("replicasPerMaster".to_owned(), json!(0));
    spec.insert("pvc".to_owned(), json!({ "storageSize": "300Mi" }));
    let expression = &mut spec["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        [0]["matchExpressions"][0];
    *expression = json!({ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] });
    spec.insert(
        "resources".to_owned(),
        json!({ "requests": { "memory": "64Mi", "cpu": "10m" }, "limits": { "memory": "256Mi" } }),
    );
    Ok(object)
}

#[test]
fn the_reference_comes_up_once_its_tag_is_quoted() -> Result<()> {
    Scenario::named("the-users-reference-comes-up").run(async |test| {
        operator::require(test).await?;
        let object = reference_for_the_testbed()?;
        test.apply_yaml(&serde_yaml_ng::to_string(&object)?).await?;
        let poc = Cluster::named(test, "valkey-poc");
        let status = poc.ready().await?.status.context("it has no status")?;
        assert_eq!((status.version.as_deref(), status.ready_pods.as_deref()), (Some("8.1"), Some("3/3")));
        poc.runs_with(3, &[("save", "60 100"), ("appendonly", "yes"), ("appendfsync", "everysec")]).await?;
        let pods = poc.pods().await?;
        let machines: BTreeSet<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        assert_eq!(machines.len(), 3, "the rule of the file does not keep its pods apart");
        let labelled = |name: &str, value: &str| {
            let has = |pod: &k8s_openapi::api::core::v1::Pod| pod.metadata.labels.as_ref()?.get(name).cloned();
            pods.iter().all(|pod| has(pod).as_deref() == Some(value))
        };
        assert!(labelled(label::APP, "valkey-poc") && labelled("myLabel", "myValue"));
        claims_say_whose_they_are(test).await
    })
}

async fn claims_say_whose_they_are(test: &Test) -> Result<()> {
    let claims = test.api::<PersistentVolumeClaim>().list(&Default::default()).await.context("list the claims")?.items;
    let marked = |claim: &&PersistentVolumeClaim| {
        let annotations = claim.metadata.annotations.as_ref();
        annotations.and_then(|map| map.get(annotation::CR)).is_some_and(|cluster| cluster == "valkey-poc")
    };
    assert_eq!((claims.len(), claims.iter().filter(marked).count()), (3, 3));
    Ok(())
}
