//! kubectl and objects as text, as people use them.

use e2e::{Scenario, workload};

#[test]
fn kubectl_works_in_the_tests_namespace() -> anyhow::Result<()> {
    Scenario::named("kubectl-works-in-the-tests-namespace").run(async |test| {
        test.apply(&workload::echo_service("front")).await?;
        let listed = test.kubectl(&["get", "services", "-o", "name"]).await?.success()?;
        assert_eq!(listed, "service/front\n");
        let missing = test.kubectl(&["get", "service", "back"]).await?;
        assert_eq!(missing.code, 1);
        assert!(missing.stderr.contains("\"back\" not found"), "{missing:?}");
        Ok(())
    })
}

#[test]
fn a_text_of_several_documents_is_applied_whole() -> anyhow::Result<()> {
    Scenario::named("a-text-of-several-documents-is-applied-whole").run(async |test| {
        let text = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n---\n";
        let applied = test.apply_yaml(text).await?;
        let namespaces: Vec<_> = applied.iter().map(|object| object.metadata.namespace.clone()).collect();
        assert_eq!(namespaces, [Some(test.namespace.clone()), Some(test.namespace.clone())]);
        let unknown = test.apply_yaml("apiVersion: nowhere.io/v1\nkind: Nothing\nmetadata: {name: x}\n").await;
        let message = format!("{:#}", unknown.expect_err("no such kind"));
        assert!(message.contains("nowhere.io/v1 Nothing"), "{message}");
        Ok(())
    })
}

#[test]
fn a_deployment_spreads_its_pods_and_all_become_ready() -> anyhow::Result<()> {
    Scenario::named("a-deployment-spreads-its-pods-and-all-become-ready").run(async |test| {
        test.apply(&workload::echo_deployment("web", 3)).await?;
        let pods = test.wait_for_pods(&workload::selector("web"), 3).await?;
        let node = |pod: &k8s_openapi::api::core::v1::Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let nodes: std::collections::BTreeSet<_> = pods.iter().map(node).collect();
        let available = test.nodes().await?.len();
        assert!(nodes.len() >= available.min(2), "three pods sit on {nodes:?} of {available} nodes");
        Ok(())
    })
}
