//! The ConfigMap with the settings all sidecars share. Its name never changes, so that a new value reaches running pods. Pure.

use crate::validated::ValidatedCluster;
use crate::{metadata, node_settings};
use api::names;
use api::node_settings::SETTINGS_FILE;
use k8s_openapi::api::core::v1::ConfigMap;

pub fn config_map(cluster: &ValidatedCluster) -> ConfigMap {
    ConfigMap {
        metadata: metadata::object(cluster, names::config_map(&cluster.name)),
        data: Some([(SETTINGS_FILE.to_owned(), node_settings::text(cluster))].into()),
        ..ConfigMap::default()
    }
}
