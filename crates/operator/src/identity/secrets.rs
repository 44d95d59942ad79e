//! Secrets, one at a time and by name: read, written whole, told from those of others. No list, no watch: nobody needs the right to
//! see Secrets that are not ours. Nothing is written over but what was looked at.

use super::contents::Contents;
use super::{Error, detail};
use crate::metrics::Metrics;
use api::certificates::names;
use api::names::{MANAGER, annotation, label};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use pki::Thumbprint;
use std::collections::BTreeMap;
use std::sync::Arc;
use zeroize::Zeroize;

pub struct Secrets {
    client: Client,
    metrics: Arc<Metrics>,
}

/// A Secret that was read.
#[derive(Default)]
pub struct SecretSeen {
    pub uid: String,
    pub contents: Contents,
    pub annotations: BTreeMap<String, String>,
    /// Made by an operator; for whom, its other marks say.
    pub ours: bool,
    /// The object it goes with.
    pub controller: Option<OwnerReference>,
    /// Nobody can write it any more, only delete it.
    pub immutable: bool,
}

impl SecretSeen {
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Of the root that we put into it.
    pub fn noted_thumbprint(&self) -> Option<Thumbprint> {
        self.annotation(names::THUMBPRINT).map(Thumbprint::recorded)
    }

    /// Made by an operator for itself, and for no cluster.
    pub fn is_operators(&self) -> bool {
        let marks = [annotation::CR, names::KEY_OF];
        self.ours && self.controller.is_none() && !marks.iter().any(|mark| self.annotations.contains_key(*mark))
    }

    /// When the certificate was made, as we noted it.
    pub fn moment(&self, key: &str) -> Option<Timestamp> {
        self.annotation(key)?.parse().ok()
    }
}

/// A Secret to write.
pub struct SecretWanted {
    pub name: String,
    pub kind: &'static str,
    pub contents: Contents,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner: Option<OwnerReference>,
}

pub const OPAQUE: &str = "Opaque";
pub const TLS: &str = "kubernetes.io/tls";

impl Secrets {
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self { client, metrics }
    }

    /// None when it is not there; Err, in words, when it could not be looked at.
    pub async fn read(&self, namespace: &str, name: &str) -> Result<Option<SecretSeen>, String> {
        let found = self.secrets(namespace).get_opt(name).await;
        let found = found.map_err(|error| format!("the Secret {name} could not be read: {}", detail(&error)))?;
        Ok(found.map(seen))
    }

    /// Over the Secret of this UID or, without one, where none is: what somebody put there since it was looked at stays untouched.
    pub async fn write(&self, namespace: &str, wanted: &SecretWanted, over: Option<&str>) -> Result<(), Error> {
        let written = match over {
            Some(uid) => self.apply(namespace, wanted, uid).await,
            None => self.create(namespace, wanted).await,
        };
        written.map_err(|error| Error::write(format!("the Secret {}", wanted.name), &error))
    }

    /// The same, also over one of another type: the type of a Secret cannot change.
    pub async fn write_anew(&self, namespace: &str, wanted: &SecretWanted, over: &str) -> Result<(), Error> {
        match self.apply(namespace, wanted, over).await {
            Err(kube::Error::Api(status)) if status.code == 422 => {
                self.delete(namespace, &wanted.name, over).await?;
                self.write(namespace, wanted, None).await
            }
            written => written.map_err(|error| Error::write(format!("the Secret {}", wanted.name), &error)),
        }
    }

    /// Only the one of this UID.
    pub async fn delete(&self, namespace: &str, name: &str, uid: &str) -> Result<(), Error> {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        self.metrics.write("delete", "Secret");
        match self.secrets(namespace).delete(name, &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(drop).map_err(|error| Error::write(format!("the Secret {name}"), &error)),
        }
    }

    async fn apply(&self, namespace: &str, wanted: &SecretWanted, uid: &str) -> kube::Result<()> {
        let mut secret = secret(wanted);
        secret.metadata.uid = Some(uid.to_owned());
        self.metrics.write("apply", "Secret");
        let parameters = PatchParams::apply(MANAGER).force();
        let answer = self.secrets(namespace).patch(&wanted.name, &parameters, &Patch::Apply(&secret)).await;
        wipe(&mut secret);
        answer.map(|mut live| wipe(&mut live))
    }

    async fn create(&self, namespace: &str, wanted: &SecretWanted) -> kube::Result<()> {
        let mut secret = secret(wanted);
        self.metrics.write("create", "Secret");
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let answer = self.secrets(namespace).create(&parameters, &secret).await;
        wipe(&mut secret);
        answer.map(|mut live| wipe(&mut live))
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// Ours by the label, or by the note that only we make, should somebody have taken the label off.
fn seen(secret: Secret) -> SecretSeen {
    let labelled = secret.labels().get(label::MANAGED_BY).is_some_and(|manager| manager == MANAGER);
    let ours = labelled || secret.annotations().contains_key(names::ISSUED_AT);
    let mut owners = secret.owner_references().iter();
    let controller = owners.find(|owner| owner.controller == Some(true)).cloned();
    let (uid, immutable) = (secret.uid().unwrap_or_default(), secret.immutable.unwrap_or_default());
    let annotations = secret.metadata.annotations.unwrap_or_default();
    SecretSeen { uid, contents: Contents::of(secret.data), annotations, ours, controller, immutable }
}

/// UID of the object that this one goes with.
pub fn controller(object: &impl ResourceExt) -> Option<&str> {
    let mut owners = object.owner_references().iter();
    owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

fn secret(wanted: &SecretWanted) -> Secret {
    let mut secret =
        Secret { type_: Some(wanted.kind.to_owned()), data: Some(wanted.contents.data()), ..Secret::default() };
    secret.metadata.name = Some(wanted.name.clone());
    secret.metadata.labels = Some(wanted.labels.clone());
    secret.metadata.annotations = Some(wanted.annotations.clone());
    secret.metadata.owner_references = wanted.owner.clone().map(|owner| vec![owner]);
    secret
}

fn wipe(secret: &mut Secret) {
    secret.data.iter_mut().flat_map(|data| data.values_mut()).for_each(|value| value.0.zeroize());
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
