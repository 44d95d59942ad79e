//! Secrets, one at a time and by name: read, written whole, told from those of others. No list, no watch: nobody needs the right to
//! see Secrets that are not ours.

use super::contents::Contents;
use super::{Error, detail};
use crate::metrics::Metrics;
use api::certificates::names;
use api::names::{MANAGER, label};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
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
pub struct SecretSeen {
    pub contents: Contents,
    pub annotations: BTreeMap<String, String>,
    pub ours: bool,
    /// UID of the object it goes with.
    pub controller: Option<String>,
}

impl SecretSeen {
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Of the root that we put into it.
    pub fn noted_thumbprint(&self) -> Option<Thumbprint> {
        self.annotation(names::THUMBPRINT).map(Thumbprint::recorded)
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
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(name).await;
        let found = found.map_err(|error| format!("the Secret {name} could not be read: {}", detail(&error)))?;
        Ok(found.map(seen))
    }

    pub async fn write(&self, namespace: &str, wanted: &SecretWanted) -> Result<(), Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let outcome = match self.apply(&api, wanted).await {
            // Somebody put one of another type in its place, and the type of a Secret cannot change.
            Err(kube::Error::Api(status)) if status.code == 422 => {
                self.delete(&api, &wanted.name).await.map_err(|error| Error::write(&wanted.name, &error))?;
                self.apply(&api, wanted).await
            }
            other => other,
        };
        outcome.map_err(|error| Error::write(format!("the Secret {}", wanted.name), &error))
    }

    async fn apply(&self, api: &Api<Secret>, wanted: &SecretWanted) -> kube::Result<()> {
        let mut secret = secret(wanted);
        self.metrics.write("apply", "Secret");
        let answer = api.patch(&wanted.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&secret)).await;
        wipe(&mut secret);
        answer.map(|mut live| wipe(&mut live))
    }

    async fn delete(&self, api: &Api<Secret>, name: &str) -> kube::Result<()> {
        let Some(found) = api.get_opt(name).await? else { return Ok(()) };
        let preconditions = Preconditions { uid: found.uid(), resource_version: found.resource_version() };
        self.metrics.write("delete", "Secret");
        api.delete(name, &DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() })
            .await
            .map(drop)
    }
}

/// Ours by the label, or by the note that only we make, should somebody have taken the label off.
fn seen(secret: Secret) -> SecretSeen {
    let labelled = secret.labels().get(label::MANAGED_BY).is_some_and(|manager| manager == MANAGER);
    let ours = labelled || secret.annotations().contains_key(names::ISSUED_AT);
    let controller = controller(&secret).map(str::to_owned);
    let annotations = secret.metadata.annotations.unwrap_or_default();
    SecretSeen { contents: Contents::of(secret.data), annotations, ours, controller }
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
