//! An object of the wanted name that belongs to somebody else is never touched, and is reported with its owner.

use anyhow::Result;
use e2e::{Cluster, Scenario, cluster};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt;
use serde_json::json;
use std::time::Duration;

const OBSTACLES: &str = "
apiVersion: v1
kind: Service
metadata: {name: taken, labels: {app.kubernetes.io/managed-by: somebody}}
spec: {ports: [{port: 80}], selector: {app: web}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: taken-config}
data: {mine: 'yes'}
---
apiVersion: v1
kind: Secret
metadata: {name: taken-mtls}
stringData: {mine: 'yes'}
";

#[test]
fn an_object_of_somebody_else_is_never_touched_and_is_reported() -> Result<()> {
    Scenario::named("an-object-of-somebody-else-is-never-touched").run(async |test| {
        test.apply_yaml(OBSTACLES).await?;
        let (services, maps, secrets) = (test.api::<Service>(), test.api::<ConfigMap>(), test.api::<Secret>());
        let before = (services.get("taken").await?, maps.get("taken-config").await?, secrets.get("taken-mtls").await?);
        let taken = Cluster::create(test, "taken", json!({})).await?;
        let said = taken.says("Degraded", "True", Some("NameTaken")).await?;
        for part in ["Service taken", "somebody", "ConfigMap taken-config", "Secret taken-mtls"] {
            assert!(said.message.contains(part), "{part} is not in: {}", said.message);
        }
        taken.says("Ready", "False", Some("NameTaken")).await?;
        test.hold("the strangers' objects stay as they are", Duration::from_secs(5), async || {
            let now = (services.get("taken").await?, maps.get("taken-config").await?, secrets.get("taken-mtls").await?);
            assert_eq!(now.0.resource_version(), before.0.resource_version(), "the Service was written to");
            assert_eq!(now.1.resource_version(), before.1.resource_version(), "the ConfigMap was written to");
            assert_eq!(now.2.resource_version(), before.2.resource_version(), "the Secret was written to");
            Ok(())
        })
        .await?;
        assert_eq!(taken.warnings().await?.len(), 1, "{:?}", taken.events().await?);
        test.delete_and_wait::<Service>("taken").await?;
        test.delete_and_wait::<ConfigMap>("taken-config").await?;
        test.delete_and_wait::<Secret>("taken-mtls").await?;
        let ready = taken.ready().await?;
        assert_eq!(cluster::condition(&ready, "Degraded").map(|found| found.status.as_str()), Some("False"));
        Ok(())
    })
}
