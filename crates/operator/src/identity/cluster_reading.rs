//! What is stored of one cluster's identity: its bundle, its binding, and the three Secrets.

use super::in_force::InForce;
use super::root_reading::{intermediate, made};
use super::secrets::{SecretSeen, controller};
use super::{Error, Identities};
use crate::runtime::ObjectKey;
use api::certificates::{ValkeyCertificateBinding, ValkeyCertificateBundle, names};
use api::names as common;
use api::names::certificate_file::{CHAIN, KEY, ROOTS};
use api::names::{KIND, annotation};
use api::stored;
use certificates::{Found, Intermediate, Leaf};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::Api;
use kube::core::object::HasStatus;
use pki::{Authority, Bundle, Lifetime, Scope, stored_leaf};

#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub cluster_uid: String,
    pub bundle: Option<ValkeyCertificateBundle>,
    pub binding: Option<ValkeyCertificateBinding>,
    pub intermediate: Found<Intermediate>,
    pub leaf: Found<Leaf>,
    /// When the Secret that the pods mount was last written.
    pub written: Timestamp,
    /// A Secret of a name that is needed and that is somebody else's.
    pub foreign: Option<String>,
    /// A Secret of this cluster that somebody made immutable.
    pub immutable: Option<String>,
}

/// Keys that were read on the way and are needed only to act; dropped with it.
#[derive(Default)]
pub struct Keys {
    pub intermediate: Option<Authority>,
    pub leaf: Option<SecretSeen>,
    pub stored: Stored,
}

/// UIDs of the Secrets that are there and may be written over.
#[derive(Default)]
pub struct Stored {
    pub certificate: Option<String>,
    pub key: Option<String>,
    pub leaf: Option<String>,
}

impl Reading {
    /// Whether this very cluster had a leaf before. What an earlier one of its name had is left for the garbage collector.
    pub fn had_a_leaf(&self) -> bool {
        let bundle = self.bundle.as_ref().filter(|bundle| controller(*bundle) == Some(&self.cluster_uid));
        let bundle = bundle.and_then(ResourceExt::uid);
        bundle.is_some() && self.binding.as_ref().and_then(controller) == bundle.as_deref()
    }

    /// Whether this object in this version, or a later one, was read or written here.
    pub fn has_seen(&self, name: &str, version: Option<&str>) -> bool {
        let bundle = self.bundle.as_ref().map(|bundle| &bundle.metadata);
        let binding = self.binding.as_ref().map(|binding| &binding.metadata);
        let known = bundle.into_iter().chain(binding).find(|metadata| metadata.name.as_deref() == Some(name));
        let number = |text: &str| text.parse::<u128>().ok();
        let known = known.and_then(|metadata| metadata.resource_version.as_deref()).and_then(number);
        known.zip(version.and_then(number)).is_some_and(|(known, seen)| known >= seen)
    }
}

impl Identities {
    pub(super) fn bundles(&self, namespace: &str) -> Api<stored::Stored<ValkeyCertificateBundle>> {
        Api::namespaced(self.clients.requests.clone(), namespace)
    }

    pub(super) fn bindings(&self, namespace: &str) -> Api<stored::Stored<ValkeyCertificateBinding>> {
        Api::namespaced(self.clients.requests.clone(), namespace)
    }

    pub(super) async fn read_cluster(
        &self,
        cluster: &ObjectKey,
        uid: &str,
        in_force: &InForce,
        now: Timestamp,
    ) -> Result<(Reading, Keys), Error> {
        let ObjectKey { namespace, name, .. } = cluster;
        let (bundles, bindings, own) = (self.bundles(namespace), self.bindings(namespace), &self.settings.namespace);
        let [bundle_name, binding_name] = [names::bundle(name), names::binding(name)];
        let [certificate_name, leaf_name] = [names::intermediate_secret(name), common::mtls_secret(name)];
        let key_name = names::intermediate_key_secret(namespace, name);
        let (bundle, binding, certificate, key, leaf) = futures::join!(
            bundles.get_opt(&bundle_name),
            bindings.get_opt(&binding_name),
            self.secrets.read(namespace, &certificate_name),
            self.secrets.read(own, &key_name),
            self.secrets.read(namespace, &leaf_name),
        );
        let certificate = Claim::to(certificate, &certificate_name, |seen| whose(seen, name, uid));
        let key = Claim::to(key, &format!("{own}/{key_name}"), |seen| whose_key(seen, cluster, uid));
        let leaf = Claim::to(leaf, &leaf_name, |seen| whose(seen, name, uid));
        let foreign = certificate.foreign.or(key.foreign).or(leaf.foreign);
        let immutable = certificate.immutable.or(key.immutable).or(leaf.immutable);
        let stored = Stored { certificate: certificate.over, key: key.over, leaf: leaf.over };
        let scope = Scope::cluster(namespace, name)?;
        let found = (certificate.found, key.found);
        let (intermediate, authority) = stored_intermediate(found, &scope, &in_force.trusted, now);
        let (leaf, written, seen) = read_leaf(leaf.found, &scope, &in_force.trusted, now);
        let reading = Reading {
            cluster_uid: uid.to_owned(),
            bundle: shown(bundle, &format!("the ValkeyCertificateBundle {bundle_name}"))?,
            binding: shown(binding, &format!("the ValkeyCertificateBinding {binding_name}"))?,
            intermediate,
            leaf,
            written,
            foreign,
            immutable,
        };
        Ok((reading, Keys { intermediate: authority, leaf: seen, stored }))
    }
}

fn shown<K: HasStatus>(answer: kube::Result<Option<stored::Stored<K>>>, what: &str) -> Result<Option<K>, Error> {
    let found = answer.map_err(|error| Error::read(what, &error))?;
    found.map(|found| Error::unless_readable(what, found)).transpose()
}

type Answer = Result<Option<SecretSeen>, String>;

/// What is there under a name that is needed.
struct Claim {
    found: Found<SecretSeen>,
    /// UID of what may be written over.
    over: Option<String>,
    /// The name, when what is there is somebody else's.
    foreign: Option<String>,
    /// The name, when what is there can be written no more.
    immutable: Option<String>,
}

impl Claim {
    fn to(answer: Answer, name: &str, whose: impl Fn(&SecretSeen) -> Whose) -> Self {
        let nothing = |found| Self { found, over: None, foreign: None, immutable: None };
        let seen = match answer {
            Err(why) => return nothing(Found::Unreadable(why)),
            Ok(None) => return nothing(Found::Absent),
            Ok(Some(seen)) => seen,
        };
        let (over, immutable) = (Some(seen.uid.clone()), seen.immutable.then(|| name.to_owned()));
        match whose(&seen) {
            Whose::Its => Self { found: Found::Whole(seen), over, foreign: None, immutable },
            Whose::Namesakes => Self { found: Found::Absent, over, foreign: None, immutable },
            Whose::Others => Self { foreign: Some(name.to_owned()), ..nothing(Found::Unreadable(TAKEN.to_owned())) },
        }
    }
}

const TAKEN: &str =
    "a Secret of the name that is needed belongs to somebody else: delete it, or name the cluster otherwise";

/// Whose a Secret of a name that a cluster needs is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Its,
    /// An earlier cluster's of this name. As good as gone: the garbage collector takes it soon, unless it was orphaned.
    Namesakes,
    Others,
}

/// By the marks for whom it was made. That it is an operator's is not enough: so are the operator's own, and other clusters'.
fn whose(seen: &SecretSeen, cluster: &str, uid: &str) -> Whose {
    let named = seen.annotation(annotation::CR) == Some(cluster);
    match &seen.controller {
        Some(owner) if seen.ours && owner.uid == uid => Whose::Its,
        Some(owner) if seen.ours && named && owner.kind == KIND && owner.name == cluster => Whose::Namesakes,
        None if seen.ours && named => Whose::Namesakes,
        _ => Whose::Others,
    }
}

/// The same for a key, which is in another namespace than its cluster.
fn whose_key(seen: &SecretSeen, cluster: &ObjectKey, uid: &str) -> Whose {
    let named = seen.annotation(names::KEY_OF) == Some(&key_of(cluster));
    match seen.annotation(names::KEY_OF_UID) {
        Some(of) if seen.ours && named && of == uid => Whose::Its,
        _ if seen.ours && named => Whose::Namesakes,
        _ => Whose::Others,
    }
}

/// Of this very cluster, and not of a namesake.
pub fn is_key_of(seen: &SecretSeen, cluster: &ObjectKey, uid: &str) -> bool {
    whose_key(seen, cluster, uid) == Whose::Its
}

/// How the Secret with an intermediate's key says whose that is.
pub fn key_of(cluster: &ObjectKey) -> String {
    format!("{}/{}", cluster.namespace, cluster.name)
}

fn stored_intermediate(
    found: (Found<SecretSeen>, Found<SecretSeen>),
    scope: &Scope,
    trusted: &Bundle,
    now: Timestamp,
) -> (Found<Intermediate>, Option<Authority>) {
    let (certificate, key) = match found {
        (Found::Whole(certificate), Found::Whole(key)) => (certificate, key),
        (Found::Unreadable(why), _) | (_, Found::Unreadable(why)) => return (Found::Unreadable(why), None),
        _ => return (Found::Absent, None),
    };
    match Authority::from_pem(certificate.contents.get(CHAIN), key.contents.get(KEY)) {
        Ok(authority) if authority.scope() == Some(scope) => {
            let found = intermediate(&authority, certificate.moment(names::ISSUED_AT), trusted, now);
            (Found::Whole(found), Some(authority))
        }
        Ok(_) => (Found::Spoilt("it is the intermediate of somebody else".to_owned()), None),
        Err(error) => (Found::Spoilt(error.to_string()), None),
    }
}

fn read_leaf(
    found: Found<SecretSeen>,
    scope: &Scope,
    trusted: &Bundle,
    now: Timestamp,
) -> (Found<Leaf>, Timestamp, Option<SecretSeen>) {
    let seen = match found {
        Found::Whole(seen) => seen,
        Found::Unreadable(why) => return (Found::Unreadable(why), now, None),
        _ => return (Found::Absent, now, None),
    };
    let written = seen.moment(names::WRITTEN_AT).unwrap_or(now);
    match leaf_of(&seen, scope, trusted, now) {
        Ok(leaf) => (Found::Whole(leaf), written, Some(seen)),
        Err(why) => (Found::Spoilt(why), written, None),
    }
}

fn leaf_of(seen: &SecretSeen, scope: &Scope, trusted: &Bundle, now: Timestamp) -> Result<Leaf, String> {
    let contents = &seen.contents;
    let id = scope.identity();
    let stored = stored_leaf(contents.get(CHAIN), contents.get(KEY), &id, trusted, now);
    let stored = stored.map_err(|error| error.to_string())?;
    // Roots that cannot be read are no roots: they are written again.
    let roots = Bundle::from_pem(contents.get(ROOTS)).unwrap_or_default().thumbprints().into_iter().collect();
    let issued_at = seen.moment(names::ISSUED_AT).unwrap_or_else(|| made(stored.not_before));
    Ok(Leaf {
        thumbprint: stored.thumbprint,
        issuer: stored.issuer,
        root: stored.root,
        roots,
        lifetime: Lifetime { issued_at, expires_at: stored.not_after },
    })
}

#[cfg(test)]
#[path = "cluster_reading_tests.rs"]
mod tests;
