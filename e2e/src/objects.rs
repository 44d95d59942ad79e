//! Making and removing objects the way users do: server-side apply, and deletes that are over when they return. IO; called by `test`.

use crate::{verdict::Verdict, wait::wait_for_object};
use anyhow::{Context, Result};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
    core::{GroupVersionKind, NamespaceResourceScope},
    discovery::{self, Scope},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{fmt::Debug, time::Duration};

pub const FIELD_MANAGER: &str = "e2e";

pub async fn apply<K>(client: &Client, namespace: &str, object: &K) -> Result<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let name = object.name_any();
    api.patch(&name, &parameters(), &Patch::Apply(object))
        .await
        .with_context(|| format!("apply {} {name}", K::kind(&())))
}

/// Applies every document of a YAML text. Namespaced objects that name no namespace go to `namespace`.
pub async fn apply_yaml(client: &Client, namespace: &str, text: &str) -> Result<Vec<DynamicObject>> {
    let mut applied = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let value = serde_yaml_ng::Value::deserialize(document).context("read the YAML")?;
        if !value.is_null() {
            let object = serde_yaml_ng::from_value(value).context("the YAML document is no Kubernetes object")?;
            applied.push(apply_dynamic(client, namespace, object).await?);
        }
    }
    Ok(applied)
}

pub async fn apply_dynamic(client: &Client, namespace: &str, object: DynamicObject) -> Result<DynamicObject> {
    let (api, kind) = api_of(client, namespace, &object).await?;
    let name = object.name_any();
    let patch = Patch::Apply(&object);
    api.patch(&name, &parameters(), &patch).await.with_context(|| format!("apply {} {name}", kind.kind))
}

async fn api_of(client: &Client, namespace: &str, object: &DynamicObject) -> Result<(Api<DynamicObject>, ApiResource)> {
    let types = object.types.as_ref().context("an object without apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(types).context("read apiVersion and kind")?;
    let (resource, capabilities) = discovery::pinned_kind(client, &kind)
        .await
        .with_context(|| format!("the cluster does not know {} {}", types.api_version, types.kind))?;
    let namespace = object.namespace().unwrap_or_else(|| namespace.to_owned());
    let api = match capabilities.scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
        Scope::Cluster => Api::all_with(client.clone(), &resource),
    };
    Ok((api, resource))
}

/// Deletes and returns when the object is gone; an object that was not there is gone already.
pub async fn delete_and_wait<K>(api: Api<K>, name: &str, within: Duration) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let what = format!("the deletion of {} {name}", K::kind(&()));
    let Some(object) = api.get_opt(name).await.with_context(|| what.clone())? else { return Ok(()) };
    api.delete(name, &DeleteParams::default()).await.with_context(|| what.clone())?;
    let uid = object.uid();
    wait_for_object(api, name, &what, within, |seen| match seen {
        Some(seen) if seen.uid() == uid => Verdict::NotYet(lingering(seen)),
        _ => Verdict::Met(()),
    })
    .await?;
    Ok(())
}

fn lingering(object: &impl Resource) -> String {
    let deleted = object.meta().deletion_timestamp.is_some();
    let finalizers = object.finalizers().join(", ");
    format!("it is still there (being deleted: {deleted}; finalizers: [{finalizers}])")
}

fn parameters() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}
