//! Does what was decided about a cluster's identity: Secrets first, because pods wait for them, then the objects that show them.

use super::cluster_reading::{Keys, Reading};
use super::contents::Contents;
use super::in_force::InForce;
use super::root_reading::intermediate;
use super::root_writing::notes;
use super::secrets::{OPAQUE, SecretWanted, TLS};
use super::{Error, INTERMEDIATE_VALIDITY, Identities};
use crate::runtime::ObjectKey;
use api::certificates::{ValkeyCertificateBundleSpec, names};
use api::cluster::ValkeyCluster;
use api::names as common;
use api::names::certificate_file::{CHAIN, KEY, ROOTS};
use api::names::{API_VERSION, KIND, MANAGER, annotation};
use certificates::{ClusterPlan, Found, Leaf, LeafStep, Policy};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use pki::{Authority, Lifetime, Scope, SystemRandomness};
use planner::whole_second;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;

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

    /// Metadata of an object that shows certificates.
    fn metadata(&self, name: &str, owner: &OwnerReference) -> Value {
        json!({
            "name": name, "namespace": self.name.namespace, "labels": common::labels(&self.name.name),
            "annotations": self.annotations(), "ownerReferences": [owner],
        })
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
    /// The reading as it is after the plan's steps.
    pub(super) async fn act_on_cluster(
        &self,
        subject: &Subject,
        plan: &ClusterPlan,
        policy: &Policy,
        in_force: &InForce,
        (mut reading, keys): (Reading, Keys),
        now: Timestamp,
    ) -> Result<Reading, Error> {
        let (namespace, mut writes) = (&subject.name.namespace, Vec::new());
        let authority = match &plan.intermediate {
            Some(why) => {
                tracing::info!(cluster = subject.name.name, namespace, %why, "making the intermediate");
                let root = &in_force.root.authority;
                let made = root.intermediate(&subject.scope, INTERMEDIATE_VALIDITY, now, &SystemRandomness);
                let made = made.map_err(Error::issue)?;
                writes.extend(intermediate_secrets(subject, &made, in_force, now)?);
                reading.intermediate =
                    Found::Whole(intermediate(&made, Some(whole_second(now)), &in_force.trusted, now));
                Some(made)
            }
            None => keys.intermediate,
        };
        match (&plan.leaf, authority, keys.leaf) {
            (LeafStep::Issue(why), Some(authority), _) => {
                tracing::info!(cluster = subject.name.name, namespace, %why, "making the sidecars' certificate");
                let (leaf, secret) = make_leaf(subject, &authority, policy, in_force, now)?;
                reading.leaf = Found::Whole(leaf);
                writes.push(secret);
            }
            (LeafStep::WriteRoots, _, Some(seen)) => {
                if let Found::Whole(leaf) = &mut reading.leaf {
                    leaf.roots = in_force.thumbprints();
                    writes.push(leaf_secret(subject, seen.contents, leaf.lifetime.issued_at, in_force, now)?);
                }
            }
            _ => {}
        }
        if !writes.is_empty() {
            reading.written = now;
        }
        let written = writes.iter().map(|secret| self.secrets.write(namespace, secret));
        futures::future::try_join_all(written).await?;
        Ok(reading)
    }

    /// Applied only where something of ours is missing or different; what people may set stays theirs.
    pub(super) async fn apply_object<K>(
        &self,
        api: &Api<K>,
        live: Option<&K>,
        manifest: &Value,
        name: &str,
    ) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let same = live.is_some_and(|live| planner::differences(manifest, &json!(live)).is_empty());
        if same {
            return Ok(None);
        }
        self.metrics.write(
            "apply",
            if K::kind(&()) == "ValkeyCertificateBundle" {
                "ValkeyCertificateBundle"
            } else {
                "ValkeyCertificateBinding"
            },
        );
        let applied = api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(manifest)).await;
        applied.map(Some).map_err(|error| Error::write(format!("the {} {name}", K::kind(&())), &error))
    }
}

fn intermediate_secrets(
    subject: &Subject,
    made: &Authority,
    in_force: &InForce,
    now: Timestamp,
) -> Result<Vec<SecretWanted>, Error> {
    let name = &subject.name.name;
    let roots = in_force.trusted.to_pem().map_err(Error::issue)?;
    let certificate =
        Contents::default().with(CHAIN, &made.certificate_pem().map_err(Error::issue)?).with(ROOTS, &roots);
    let key = Contents::default().with(KEY, &made.key_pem().map_err(Error::issue)?);
    let now = whole_second(now);
    Ok(vec![
        subject.secret(names::intermediate_secret(name), OPAQUE, certificate, now),
        subject.secret(names::intermediate_key_secret(name), OPAQUE, key, now),
    ])
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

/// All but the rotation policy, which people may set.
pub fn bundle_manifest(subject: &Subject, reading: &Reading) -> Value {
    let name = &subject.name.name;
    let lifetime = reading.intermediate.whole().map(|found| found.lifetime);
    let moment = |at: Timestamp| k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at);
    let spec = ValkeyCertificateBundleSpec {
        ca_ref: names::ROOT.to_owned(),
        purpose: api::certificates::Purpose::Mtls,
        cert_secret_ref: names::intermediate_secret(name),
        key_secret_ref: names::intermediate_key_secret(name),
        issued_at: lifetime.map(|lifetime| moment(lifetime.issued_at)),
        expires_at: lifetime.map(|lifetime| moment(lifetime.expires_at)),
        rotation_policy: Default::default(),
    };
    let mut spec = json!(spec);
    if let Some(map) = spec.as_object_mut() {
        map.remove("rotationPolicy");
    }
    let metadata = subject.metadata(&names::bundle(name), &subject.owner);
    json!({ "apiVersion": API_VERSION, "kind": "ValkeyCertificateBundle", "metadata": metadata, "spec": spec })
}

pub fn binding_manifest(subject: &Subject, bundle_uid: &str, spec: &Value) -> Value {
    let name = &subject.name.name;
    let bundle = owner("ValkeyCertificateBundle", &names::bundle(name), bundle_uid);
    let metadata = subject.metadata(&names::binding(name), &bundle);
    json!({ "apiVersion": API_VERSION, "kind": "ValkeyCertificateBinding", "metadata": metadata, "spec": spec })
}
