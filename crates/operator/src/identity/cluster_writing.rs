//! Does what was decided about a cluster's certificates: Secrets, and the objects that show them.

use super::cluster_reading::{Keys, Reading, is_key_of, key_of};
use super::contents::Contents;
use super::in_force::InForce;
use super::root_reading::intermediate;
use super::root_writing::{labels, notes};
use super::secrets::{OPAQUE, SecretWanted, TLS};
use super::{Error, INTERMEDIATE_VALIDITY, Identities};
use crate::runtime::{self, ObjectKey};
use api::certificates::names;
use api::cluster::ValkeyCluster;
use api::names as common;
use api::names::certificate_file::{CHAIN, KEY, ROOTS};
use api::names::{API_VERSION, KIND, MANAGER, annotation};
use certificates::{Found, Leaf, Policy, Why};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use pki::{Authority, Lifetime, Scope, SystemRandomness};
use planner::{Made, whole_second};
use serde_json::Value;
use std::collections::BTreeMap;

/// By this label all keys of clusters' intermediates can be found.
const KEY_COMPONENT: &str = "intermediate-key";

/// The cluster all this is for.
pub struct Subject {
    pub name: ObjectKey,
    pub scope: Scope,
    pub owner: OwnerReference,
}

impl Subject {
    pub fn of(cluster: &ValkeyCluster) -> Result<Self, Error> {
        let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        let scope = Scope::cluster(&namespace, &name)?;
        let owner = owner(KIND, &name, &cluster.uid().unwrap_or_default());
        Ok(Self { name: ObjectKey::cluster(namespace, name), scope, owner })
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(annotation::CR.to_owned(), self.name.name.clone())])
    }

    fn secret(&self, name: String, kind: &'static str, contents: Contents, issued_at: Timestamp) -> SecretWanted {
        let mut annotations = notes(issued_at);
        annotations.extend(self.annotations());
        let (labels, owner) = (common::labels(&self.name.name), Some(self.owner.clone()));
        SecretWanted { name, kind, contents, labels, annotations, owner }
    }

    /// In the operator's namespace, where no owner in another one is allowed: the operator deletes it after its cluster.
    fn key_secret(&self, contents: Contents, issued_at: Timestamp) -> SecretWanted {
        let mut annotations = notes(issued_at);
        annotations.insert(names::KEY_OF.to_owned(), key_of(&self.name));
        annotations.insert(names::KEY_OF_UID.to_owned(), self.owner.uid.clone());
        let mut labels = labels();
        labels.insert(common::label::COMPONENT.to_owned(), KEY_COMPONENT.to_owned());
        let name = names::intermediate_key_secret(&self.name.namespace, &self.name.name);
        SecretWanted { name, kind: OPAQUE, contents, labels, annotations, owner: None }
    }
}

pub fn owner(kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

impl Identities {
    /// Makes the leaf, and first the intermediate if there is a reason to. The reading as it is then.
    pub(super) async fn issue(
        &self,
        subject: &Subject,
        (why, above): (&Why, Option<&Why>),
        policy: &Policy,
        in_force: &InForce,
        (mut reading, keys): (Reading, Keys),
        now: Timestamp,
    ) -> Result<Reading, Error> {
        let (cluster, namespace, mut writes) = (&subject.name.name, &subject.name.namespace, Vec::new());
        let authority = match above {
            Some(why) => {
                tracing::info!(cluster, namespace, %why, "making the intermediate");
                let root = &in_force.root.authority;
                let made = root.intermediate(&subject.scope, INTERMEDIATE_VALIDITY, now, &SystemRandomness);
                let made = made.map_err(Error::issue)?;
                let own = self.settings.namespace.as_str();
                let (certificate, key) = intermediate_secrets(subject, &made, in_force, now)?;
                writes.push((namespace.as_str(), certificate, keys.stored.certificate.as_deref()));
                writes.push((own, key, keys.stored.key.as_deref()));
                reading.intermediate =
                    Found::Whole(intermediate(&made, Some(whole_second(now)), &in_force.trusted, now));
                made
            }
            None => keys.intermediate.clone().ok_or_else(|| Error::Issue("there is no intermediate".to_owned()))?,
        };
        tracing::info!(cluster, namespace, %why, "making the sidecars' certificate");
        let (leaf, secret) = make_leaf(subject, &authority, policy, in_force, now)?;
        let made = Made { leaf: leaf.thumbprint.clone(), why: why.clone(), intermediate: above.cloned() };
        (reading.leaf, reading.written) = (Found::Whole(leaf), now);
        writes.push((namespace, secret, keys.stored.leaf.as_deref()));
        let written = writes.iter().map(|(namespace, secret, over)| self.secrets.write(namespace, secret, *over));
        futures::future::try_join_all(written).await?;
        self.memories.set_made(&subject.name, &reading.cluster_uid, made);
        Ok(reading)
    }

    /// The same leaf beside the roots that are trusted now.
    pub(super) async fn write_roots(
        &self,
        subject: &Subject,
        in_force: &InForce,
        (mut reading, keys): (Reading, Keys),
        now: Timestamp,
    ) -> Result<Reading, Error> {
        let (Found::Whole(leaf), Some(seen)) = (&mut reading.leaf, keys.leaf) else { return Ok(reading) };
        leaf.roots = in_force.thumbprints();
        let secret = leaf_secret(subject, seen.contents, leaf.lifetime.issued_at, in_force, now)?;
        self.secrets.write(&subject.name.namespace, &secret, keys.stored.leaf.as_deref()).await?;
        reading.written = now;
        Ok(reading)
    }

    /// A key without its cluster signs for nobody. What cannot be done now is done with the next pass.
    pub(super) async fn delete_keys_of_ended_clusters(&self) {
        for (cluster, uid) in self.memories.take_ended() {
            if let Err(error) = self.delete_key(&cluster, &uid).await {
                tracing::warn!(cluster = cluster.name, namespace = cluster.namespace, %error, "a key is left over, trying again");
                self.memories.has_ended(cluster, uid);
            }
        }
    }

    async fn delete_key(&self, cluster: &ObjectKey, uid: &str) -> Result<(), Error> {
        let (own, name) = (&self.settings.namespace, names::intermediate_key_secret(&cluster.namespace, &cluster.name));
        let seen = self.secrets.read(own, &name).await.map_err(|detail| Error::Read { what: name.clone(), detail })?;
        match seen.filter(|seen| is_key_of(seen, cluster, uid)) {
            Some(seen) => self.secrets.delete(own, &name, &seen.uid).await,
            None => Ok(()),
        }
    }

    /// What people may set stays theirs.
    pub(super) async fn apply_shown(
        &self,
        kind: &'static str,
        namespace: &str,
        manifest: &Value,
    ) -> Result<DynamicObject, Error> {
        let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let api = runtime::own_kind(&self.clients.requests, kind, namespace);
        self.metrics.write("apply", kind);
        let applied = api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(manifest)).await;
        applied.map_err(|error| Error::write(format!("the {kind} {name}"), &error))
    }
}

fn intermediate_secrets(
    subject: &Subject,
    made: &Authority,
    in_force: &InForce,
    now: Timestamp,
) -> Result<(SecretWanted, SecretWanted), Error> {
    let name = &subject.name.name;
    let roots = in_force.trusted.to_pem().map_err(Error::issue)?;
    let certificate =
        Contents::default().with(CHAIN, &made.certificate_pem().map_err(Error::issue)?).with(ROOTS, &roots);
    let key = Contents::default().with(KEY, &made.key_pem().map_err(Error::issue)?);
    let now = whole_second(now);
    Ok((subject.secret(names::intermediate_secret(name), OPAQUE, certificate, now), subject.key_secret(key, now)))
}

fn make_leaf(
    subject: &Subject,
    authority: &Authority,
    policy: &Policy,
    in_force: &InForce,
    now: Timestamp,
) -> Result<(Leaf, SecretWanted), Error> {
    let issued = authority.leaf(&subject.scope.identity(), policy.validity, now, &SystemRandomness);
    let issued = issued.map_err(Error::issue)?;
    let root = authority.root_among(&in_force.trusted, now, &SystemRandomness).map_err(Error::issue)?;
    let leaf = Leaf {
        thumbprint: issued.thumbprint.clone(),
        issuer: authority.thumbprint(),
        root: root.unwrap_or_else(|| in_force.root.authority.thumbprint()),
        roots: in_force.thumbprints(),
        lifetime: Lifetime { issued_at: issued.issued_at, expires_at: issued.not_after },
    };
    let contents = Contents::default().with(CHAIN, &issued.chain_pem).with(KEY, &issued.key_pem);
    let secret = leaf_secret(subject, contents, issued.issued_at, in_force, now)?;
    Ok((leaf, secret))
}

fn leaf_secret(
    subject: &Subject,
    contents: Contents,
    issued_at: Timestamp,
    in_force: &InForce,
    now: Timestamp,
) -> Result<SecretWanted, Error> {
    let contents = contents.with(ROOTS, &in_force.trusted.to_pem().map_err(Error::issue)?);
    let mut secret = subject.secret(common::mtls_secret(&subject.name.name), TLS, contents, issued_at);
    secret.annotations.insert(names::WRITTEN_AT.to_owned(), whole_second(now).to_string());
    Ok(secret)
}
