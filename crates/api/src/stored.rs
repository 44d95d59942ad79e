//! An object of ours as it is stored, which may be by another version. Pure. Spec and status are read apart: of a status that cannot
//! be read whatever can be is, and the operator writes all of it anew; a spec that cannot be read leaves the status known.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::object::HasStatus;
use kube_core::{PartialObjectMeta, Resource};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// One that cannot be read must not hide the others.
#[derive(Clone, Debug)]
pub struct Stored<K: HasStatus>(pub Result<K, Unreadable<K::Status>>);

/// What is known of an object whose spec cannot be read.
#[derive(Clone, Debug)]
pub struct Unreadable<S> {
    pub error: String,
    pub metadata: ObjectMeta,
    pub status: Option<S>,
}

impl<'de, K> Deserialize<'de> for Stored<K>
where
    K: HasStatus + Resource + DeserializeOwned,
    K::Status: DeserializeOwned,
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut object = Map::deserialize(from)?;
        let status = object.remove("status").and_then(|status| readable(&status));
        let object = Value::Object(object);
        let read = K::deserialize(&object).map_err(|error| error.to_string());
        Ok(Self(match read {
            Ok(mut read) => {
                *read.status_mut() = status;
                Ok(read)
            }
            Err(error) => {
                let PartialObjectMeta::<K> { metadata, .. } =
                    PartialObjectMeta::deserialize(&object).map_err(D::Error::custom)?;
                Err(Unreadable { error, metadata, status })
            }
        }))
    }
}

/// The fields that can be read; the others are as if they were not there.
fn readable<S: DeserializeOwned>(status: &Value) -> Option<S> {
    let fields = status.as_object()?;
    let read = |fields: Map<String, Value>| S::deserialize(&Value::Object(fields));
    let alone = |name: &str, value: &Value| read(Map::from_iter([(name.to_owned(), value.clone())]));
    let whole = S::deserialize(status);
    whole
        .or_else(|_| {
            let fields = fields.iter().filter(|(name, value)| alone(name, value).is_ok());
            read(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
        })
        .ok()
}

impl<K: HasStatus + Resource> Resource for Stored<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|unreadable| &unreadable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|unreadable| &mut unreadable.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::{ValkeyCA, ValkeyCertificateBinding, ValkeyCertificateBundle};
    use crate::cluster::ValkeyCluster;
    use serde_json::json;

    fn stored(spec: &Value, status: &Value) -> Stored<ValkeyCluster> {
        let metadata = json!({ "name": "orders", "namespace": "team-a", "uid": "u", "generation": 3 });
        let object = json!({ "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "metadata": metadata,
            "spec": spec, "status": status });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_status_that_cannot_be_read_costs_what_cannot_be_read_and_never_the_spec() {
        let status = json!({ "phase": 7, "masterCount": "many", "conditions": "all well", "readyReplicas": 5,
            "statefulSet": [], "shards": [{"id": "shard-0", "slots": "0-9", "nodes": [{"pod": 1}]}, 4] });
        let cluster = stored(&json!({ "masterCount": 4 }), &status).0.unwrap();
        let read = cluster.status.unwrap();
        assert_eq!(
            (cluster.spec.master_count, read.ready_replicas, read.phase, read.master_count),
            (Some(4), 5, None, 0)
        );
        assert_eq!(
            read.shards.iter().map(|shard| (shard.id.as_str(), shard.nodes.len())).collect::<Vec<_>>(),
            [("shard-0", 0)]
        );
        for status in [json!("none"), json!([]), json!(null)] {
            assert_eq!(stored(&json!({}), &status).0.unwrap().status, None);
        }
    }

    #[test]
    fn a_spec_that_cannot_be_read_leaves_metadata_and_status_known() {
        let found = stored(&json!({ "masterCount": "many" }), &json!({ "phase": "Hibernating", "readyReplicas": 6 }));
        assert_eq!((found.meta().name.as_deref(), found.meta().generation), (Some("orders"), Some(3)));
        let unreadable = found.0.unwrap_err();
        let status = unreadable.status.unwrap();
        assert_eq!((status.phase.as_deref(), status.ready_replicas), (Some("Hibernating"), 6));
        assert!(unreadable.error.contains("many"), "{}", unreadable.error);
    }

    /// Whatever any field of a status becomes in another version.
    fn reads_with_anything<K>(spec: &Value, definition: &Value)
    where
        K: HasStatus + Resource + DeserializeOwned,
        K::Status: DeserializeOwned,
    {
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let fields = definition.pointer(schema).and_then(Value::as_object).unwrap();
        for name in fields.keys() {
            for other in [json!(null), json!(true), json!(-1.5), json!("word"), json!(["word"]), json!({"word": 1})] {
                let object = json!({ "apiVersion": "valkey.io/v1alpha1", "kind": "any", "metadata": {"name": "a"}, "spec": spec,
                    "status": { name: other, "observedGeneration": 2 } });
                let Stored(read) = serde_json::from_value::<Stored<K>>(object).unwrap();
                assert!(read.is_ok_and(|read| read.status().is_some()), "{name}: {other}");
            }
        }
    }

    #[test]
    fn no_field_of_any_status_can_make_an_object_unreadable() {
        let definitions = crate::definition::all().into_iter().map(|it| serde_json::to_value(it).unwrap());
        let [cluster, authority, bundle, binding] = definitions.collect::<Vec<_>>().try_into().unwrap();
        reads_with_anything::<ValkeyCluster>(&json!({}), &cluster);
        reads_with_anything::<ValkeyCA>(&json!({"caCertSecretRef": "a"}), &authority);
        let spec = json!({"caRef": "a", "purpose": "mtls", "certSecretRef": "b", "keySecretRef": "c"});
        reads_with_anything::<ValkeyCertificateBundle>(&spec, &bundle);
        reads_with_anything::<ValkeyCertificateBinding>(&json!({"clusterRef": "a"}), &binding);
    }
}
