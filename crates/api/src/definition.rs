//! The CustomResourceDefinition as it is installed: generated from the types, marked as ours. Pure; written out by an example.

use crate::certificates::{ValkeyCA, ValkeyCertificateBinding, ValkeyCertificateBundle};
use crate::cluster::{OF_AUTHORITY, OF_CLUSTER, RefusedField, ValkeyCluster, root_rules};
use crate::names::{MANAGER, annotation, label};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube_core::CustomResourceExt;

/// Which schema this is: higher whenever a definition was changed since the last release. What is installed says its own.
pub const REVISION: u32 = 2;

/// The definition of ValkeyCluster.
pub fn valkey_cluster() -> CustomResourceDefinition {
    let mut definition = marked(ValkeyCluster::crd());
    for schema in definition.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut()) {
        schema.open_api_v3_schema.iter_mut().for_each(add_root_rules);
        let spec = schema.open_api_v3_schema.iter_mut().flat_map(|root| root.properties.as_mut()?.get_mut("spec"));
        spec.for_each(null_is_absent);
    }
    with_refused(definition, OF_CLUSTER)
}

/// Everything that is installed.
pub fn all() -> Vec<CustomResourceDefinition> {
    std::iter::once(valkey_cluster()).chain(certificates()).collect()
}

/// The definitions of the resources behind identities.
pub fn certificates() -> [CustomResourceDefinition; 3] {
    let authority = with_refused(ValkeyCA::crd(), OF_AUTHORITY);
    [authority, ValkeyCertificateBundle::crd(), ValkeyCertificateBinding::crd()].map(marked)
}

/// With the fields that are declared only to be refused.
fn with_refused(mut definition: CustomResourceDefinition, fields: &[RefusedField]) -> CustomResourceDefinition {
    for schema in definition.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut()) {
        for field in fields {
            schema.open_api_v3_schema.iter_mut().for_each(|root| declare(root, field));
        }
    }
    definition
}

fn declare(root: &mut JSONSchemaProps, field: &RefusedField) {
    let Some((name, parents)) = field.path.split_last() else { return };
    let mut place = root.properties.as_mut().and_then(|map| map.get_mut("spec"));
    for part in parents {
        place = place.and_then(|place| place.properties.as_mut()?.get_mut(*part));
    }
    let schema = serde_json::from_value(field.schema()).ok();
    if let Some((place, schema)) = place.zip(schema) {
        place.properties.get_or_insert_default().insert((*name).to_owned(), schema);
    }
}

/// With the mark by which install tells ours from somebody else's, and the older from the newer.
fn marked(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let metadata = &mut definition.metadata;
    let marks = [(annotation::OWNER, MANAGER.to_owned()), (annotation::SCHEMA_REVISION, REVISION.to_string())];
    let marks = marks.map(|(name, value)| (name.to_owned(), value));
    metadata.annotations.get_or_insert_default().extend(marks);
    metadata.labels.get_or_insert_default().insert(label::PART_OF.to_owned(), MANAGER.to_owned());
    for schema in definition.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut()) {
        schema.open_api_v3_schema.iter_mut().for_each(drop_unsigned_formats);
    }
    definition
}

/// Kubernetes knows no unsigned numbers and warns of each; the minimum of 0 stays.
fn drop_unsigned_formats(schema: &mut JSONSchemaProps) {
    schema.format.take_if(|format| format.starts_with("uint"));
    schema.properties.iter_mut().flat_map(|map| map.values_mut()).for_each(drop_unsigned_formats);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = schema.items.as_mut() {
        drop_unsigned_formats(items);
    }
}

/// The API server drops a null where none is allowed: a field is there or it is not, and rules need not tell a third case.
fn null_is_absent(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.enum_.iter_mut().for_each(|values| values.retain(|value| !value.0.is_null()));
    schema.properties.iter_mut().flat_map(|map| map.values_mut()).for_each(null_is_absent);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = schema.items.as_mut() {
        null_is_absent(items);
    }
}

/// The rules on metadata.name and those that look at the status belong to the root, which the derive macro makes.
fn add_root_rules(root: &mut JSONSchemaProps) {
    root.x_kubernetes_validations = serde_json::from_value(root_rules()).ok();
}

/// Whether a definition found in a cluster is ours to replace.
pub fn is_ours(definition: &CustomResourceDefinition) -> bool {
    let annotations = definition.metadata.annotations.as_ref();
    annotations.and_then(|map| map.get(annotation::OWNER)).is_some_and(|owner| owner == MANAGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_definition_is_told_from_a_stranger_of_the_same_name() {
        let mut definition = valkey_cluster();
        assert!(is_ours(&definition));
        definition.metadata.annotations = None;
        assert!(!is_ours(&definition));
    }

    #[test]
    fn the_rules_of_the_whole_are_at_the_root() {
        let definition = valkey_cluster();
        let root = definition.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
        assert_eq!(root.x_kubernetes_validations.as_ref().unwrap().len(), 3);
    }
}
