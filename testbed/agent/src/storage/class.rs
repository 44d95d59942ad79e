//! The testbed's default StorageClass. IO; applied once by `main` when the API server answers.

use std::time::Duration;

use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::PROVISIONER;

const NAME: &str = "standard";

fn standard() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": NAME, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
        "reclaimPolicy": "Delete",
    })
}

/// Tries until it succeeds; the API server may still be starting. Each new kind of failure is said once.
pub async fn apply(client: Client) {
    let classes: Api<StorageClass> = Api::all(client);
    let parameters = PatchParams::apply(PROVISIONER).force();
    let mut said = String::new();
    while let Err(error) = classes.patch(NAME, &parameters, &Patch::Apply(standard())).await {
        let words = error.to_string();
        if words != said {
            tracing::warn!("cannot apply StorageClass {NAME}, trying again (if it differs, delete it): {words}");
            said = words;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    tracing::info!(name = NAME, "StorageClass applied");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_waits_for_a_consumer_grows_and_is_the_default() {
        let class: StorageClass = serde_json::from_value(standard()).unwrap();
        assert_eq!(class.provisioner, PROVISIONER);
        assert_eq!(class.volume_binding_mode.as_deref(), Some("WaitForFirstConsumer"));
        assert_eq!(class.allow_volume_expansion, Some(true));
        let annotations = class.metadata.annotations.unwrap();
        assert_eq!(annotations["storageclass.kubernetes.io/is-default-class"], "true");
    }
}
