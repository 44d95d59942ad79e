//! Where the data lives. Pure.

use super::rules::{at, immutable, rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A PersistentVolumeClaim for each pod. Only storageSize can change after creation, and only upwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = storage_rules()))]
pub struct Storage {
    /// Size of each pod's volume, for example 30Gi. It can grow if the StorageClass allows expansion; it cannot shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(required, length(max = 32), extend("x-kubernetes-validations" = size_rules()))]
    pub storage_size: Option<String>,
    /// StorageClass of the volumes; the default StorageClass if left out. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
}

fn size_rules() -> Value {
    json!([
        rule(
            "isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",
            "storageSize must be a quantity above zero such as 30Gi: write a number with one of Mi, Gi, Ti"
        ),
        immutable(
            "!isQuantity(self) || !isQuantity(oldSelf) || quantity(self).compareTo(quantity(oldSelf)) >= 0",
            "storageSize cannot shrink, because volumes cannot: keep the old size, or create a new cluster and move the data there"
        ),
    ])
}

fn storage_rules() -> Value {
    json!([at(
        ".storageClassName",
        immutable(
            "(has(self.storageClassName) ? self.storageClassName : '') == (has(oldSelf.storageClassName) ? oldSelf.storageClassName : '')",
            "storageClassName cannot change after creation, because volumes cannot move: keep the old one, or create a new cluster and move the data there"
        )
    )])
}
