//! The user's environment variables, as they mean the same however they are written. Pure.

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector};

/// Without what the API server would fill in or leave out: it would be put right for ever.
pub fn plain(variables: &[EnvVar]) -> Vec<EnvVar> {
    variables.iter().cloned().map(plain_variable).collect()
}

/// The same for all lists that make the same environment. Only to a variable that names others does it matter which came before.
pub fn in_order(variables: &[EnvVar]) -> Vec<EnvVar> {
    let mut variables = plain(variables);
    let refers = |variable: &EnvVar| variable.value.as_ref().is_some_and(|value| value.contains("$("));
    if !variables.iter().any(refers) {
        variables.sort_by(|one, other| one.name.cmp(&other.name));
    }
    variables
}

fn plain_variable(variable: EnvVar) -> EnvVar {
    let value = variable.value.filter(|value| !value.is_empty());
    EnvVar { name: variable.name, value, value_from: variable.value_from.map(plain_source) }
}

fn plain_source(source: EnvVarSource) -> EnvVarSource {
    let field = |field: ObjectFieldSelector| ObjectFieldSelector {
        api_version: field.api_version.filter(|version| !["", "v1"].contains(&version.as_str())),
        ..field
    };
    let resource = |resource: ResourceFieldSelector| ResourceFieldSelector {
        container_name: resource.container_name.filter(|name| !name.is_empty()),
        ..resource
    };
    EnvVarSource {
        field_ref: source.field_ref.map(field),
        resource_field_ref: source.resource_field_ref.map(resource),
        ..source
    }
}
