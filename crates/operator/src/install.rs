//! The CustomResourceDefinitions: printed, installed, and never taken from somebody else. Called by `main`.

use api::definition::{REVISION, all, is_ours};
use api::installed::{Installed, Older, older};
use api::names::MANAGER;
use api::text::listed;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Client, ResourceExt};
use std::collections::BTreeMap;
use std::time::Duration;

/// The API server accepts a definition within a second or two.
const ESTABLISHED_DEADLINE: Duration = Duration::from_secs(30);

/// How many missing fields the log names.
const NAMED: usize = 20;

/// The definitions of the first release.
const FIRST: [&str; 4] = [
    include_str!("../../api/released/0.1.0/valkeyclusters.valkey.io.yaml"),
    include_str!("../../api/released/0.1.0/valkeycas.valkey.io.yaml"),
    include_str!("../../api/released/0.1.0/valkeycertificatebundles.valkey.io.yaml"),
    include_str!("../../api/released/0.1.0/valkeycertificatebindings.valkey.io.yaml"),
];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the definition {name} could not be read")]
    Read { name: String, source: kube::Error },
    #[error("the definition {name} could not be applied")]
    Apply { name: String, source: kube::Error },
    #[error(
        "the CustomResourceDefinition {name} is somebody else's and is left as it is: {owner}. \
         Two operators cannot share it: remove the other one and its definition first, or use another Kubernetes cluster"
    )]
    Foreign { name: String, owner: String },
    #[error("the definition {name} was applied, but the API server does not serve it after {ESTABLISHED_DEADLINE:?}")]
    NotEstablished { name: String },
    #[error("the definition could not be printed")]
    Print(#[from] serde_yaml_ng::Error),
}

pub fn definitions() -> Vec<CustomResourceDefinition> {
    all()
}

pub fn print() -> Result<String, Error> {
    let documents = definitions().iter().map(api::yaml::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(documents.iter().map(|document| format!("---\n{document}")).collect())
}

pub async fn install(client: &Client) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions() {
        refuse_foreign(&api, &definition.name_any()).await?;
    }
    for definition in definitions() {
        apply(&api, &definition).await?;
    }
    Ok(())
}

async fn apply(api: &Api<CustomResourceDefinition>, definition: &CustomResourceDefinition) -> Result<(), Error> {
    let name = definition.name_any();
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch(&name, &parameters, &Patch::Apply(definition))
        .await
        .map_err(|source| Error::Apply { name: name.clone(), source })?;
    let established = await_condition(api.clone(), &name, is_crd_established());
    match tokio::time::timeout(ESTABLISHED_DEADLINE, established).await {
        Ok(Ok(_)) => {
            tracing::info!(name, "definition installed");
            Ok(())
        }
        _ => Err(Error::NotEstablished { name }),
    }
}

/// For the start of the operator: a definition of our name with another schema makes every object unreadable, and one of an earlier
/// version takes less than we write. Who may not look writes what the first one took: of a status with a field more, nothing would be kept.
pub async fn check(client: &Client) -> Result<Installed, Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut installed = Installed::default();
    for definition in definitions() {
        match refuse_foreign(&api, &definition.name_any()).await {
            Err(Error::Read { name, source }) => {
                tracing::info!(name, error = %source, "the definition cannot be checked: statuses have what the first one took");
                first(&name).iter().for_each(|first| installed.limited_by(first));
            }
            found => {
                let Some(found) = found? else { continue };
                let Some(older) = older(&found, &definition) else { continue };
                tracing::warn!(name = older.name, revision = older.revision, "{}", outdated(&older));
                installed.limited_by(&found);
            }
        }
    }
    Ok(installed)
}

/// Whatever is installed takes at least what this does.
fn first(name: &str) -> Option<CustomResourceDefinition> {
    let read = FIRST.iter().filter_map(|text| serde_yaml_ng::from_str::<CustomResourceDefinition>(text).ok());
    read.into_iter().find(|definition| definition.name_any() == name)
}

/// What would not work, and the way out.
fn outdated(older: &Older) -> String {
    let unknown = match older.unknown.as_slice() {
        [] => "some of its rules are outdated".to_owned(),
        unknown => format!("it does not have {}, which nobody can set or see until then", listed(unknown, NAMED)),
    };
    format!(
        "the CustomResourceDefinition {} is of an earlier version (schema revision {}, this operator is made for {REVISION}): {unknown}. \
         Upgrade the definitions (helm upgrade with crds.install=true, kubectl apply --server-side -f crds.yaml, or valkey-operator \
         install-crds) and restart the operator; everything else goes on as before",
        older.name, older.revision
    )
}

/// What is installed under that name, if anything.
async fn refuse_foreign(
    api: &Api<CustomResourceDefinition>,
    name: &str,
) -> Result<Option<CustomResourceDefinition>, Error> {
    let found = api.get_opt(name).await.map_err(|source| Error::Read { name: name.to_owned(), source })?;
    match found {
        Some(foreign) if !is_ours(&foreign) => Err(Error::Foreign { name: name.to_owned(), owner: describe(&foreign) }),
        found => Ok(found),
    }
}

/// Whose it is, as far as it says.
fn describe(definition: &CustomResourceDefinition) -> String {
    let managers = definition.managed_fields().iter().filter_map(|entry| entry.manager.clone());
    let mut managers: Vec<String> = managers.filter(|manager| manager != "kube-apiserver").collect();
    managers.dedup();
    let written = if managers.is_empty() { "an unknown client".to_owned() } else { managers.join(", ") };
    format!(
        "written by {written}; labels: {}; annotations: {}",
        pairs(definition.labels()),
        pairs(definition.annotations())
    )
}

fn pairs(map: &BTreeMap<String, String>) -> String {
    let shown = map.iter().filter(|(key, _)| *key != "kubectl.kubernetes.io/last-applied-configuration");
    let text = shown.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_definitions_can_be_read_back() {
        let text = print().unwrap();
        let documents = text.split("---\n").filter(|document| !document.is_empty());
        let read: Vec<CustomResourceDefinition> =
            documents.map(|document| serde_yaml_ng::from_str(document).unwrap()).collect();
        assert_eq!(read, definitions());
    }

    #[test]
    fn who_may_not_look_writes_what_the_first_definitions_took() {
        assert!(definitions().iter().all(|definition| first(&definition.name_any()).is_some()));
        let mut installed = Installed::default();
        installed.limited_by(&first("valkeyclusters.valkey.io").unwrap());
        let status = serde_json::json!({ "phase": "Running", "modules": ["json"] });
        assert_eq!(installed.known("ValkeyCluster", status), serde_json::json!({ "phase": "Running" }));
    }

    #[test]
    fn an_older_definition_is_told_with_what_it_lacks_and_the_way_out() {
        let unknown = vec!["spec.networkPolicy".to_owned(), "status.pods[].zone".to_owned()];
        let told = outdated(&Older { name: "valkeyclusters.valkey.io".into(), revision: 1, unknown });
        let parts = [
            "valkeyclusters.valkey.io",
            "revision 1",
            "spec.networkPolicy, status.pods[].zone",
            "install-crds",
            "helm upgrade",
        ];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        let told = outdated(&Older { name: "valkeyclusters.valkey.io".into(), revision: 1, unknown: Vec::new() });
        assert!(told.contains("some of its rules are outdated"), "{told}");
    }

    #[test]
    fn a_foreign_definition_is_described_by_its_managers_and_marks() {
        let definition: CustomResourceDefinition = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "valkeyclusters.valkey.io", "labels": { "app": "other" },
                "annotations": { "controller-gen.kubebuilder.io/version": "v0.19.0" },
                "managedFields": [{ "manager": "helm", "operation": "Update" }, { "manager": "kube-apiserver", "operation": "Update" }] },
            "spec": { "group": "valkey.io", "names": { "kind": "ValkeyCluster", "plural": "valkeyclusters" }, "scope": "Namespaced", "versions": [] },
        }))
        .unwrap();
        let text = describe(&definition);
        assert_eq!(
            text,
            "written by helm; labels: app=other; annotations: controller-gen.kubebuilder.io/version=v0.19.0"
        );
    }
}
