//! What is stored of one cluster's identity: its bundle, its binding, and the three Secrets.

use super::in_force::InForce;
use super::root_reading::{intermediate, made};
use super::secrets::{SecretSeen, controller};
use super::{Error, Identities};
use crate::runtime::ObjectKey;
use api::certificates::{ValkeyCertificateBinding, ValkeyCertificateBundle, names};
use api::names as common;
use api::names::certificate_file::{CHAIN, KEY, ROOTS};
use certificates::{Found, Intermediate, Leaf};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::Api;
use pki::{Authority, Bundle, Lifetime, Scope, stored_leaf};

#[derive(Clone)]
pub struct Reading {
    pub cluster_uid: String,
    pub bundle: Option<ValkeyCertificateBundle>,
    pub binding: Option<ValkeyCertificateBinding>,
    pub intermediate: Found<Intermediate>,
    pub leaf: Found<Leaf>,
    /// When the Secret that the pods mount was last written.
    pub written: Timestamp,
}

/// Keys that were read on the way and are needed only to act; dropped with it.
#[derive(Default)]
pub struct Keys {
    pub intermediate: Option<Authority>,
    pub leaf: Option<SecretSeen>,
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
    pub(super) fn bundles(&self, namespace: &str) -> Api<ValkeyCertificateBundle> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(super) fn bindings(&self, namespace: &str) -> Api<ValkeyCertificateBinding> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(super) async fn read_cluster(
        &self,
        cluster: &ObjectKey,
        uid: &str,
        in_force: &InForce,
        now: Timestamp,
    ) -> Result<(Reading, Keys), Error> {
        let ObjectKey { namespace, name, .. } = cluster;
        let (bundles, bindings) = (self.bundles(namespace), self.bindings(namespace));
        let [bundle_name, binding_name] = [names::bundle(name), names::binding(name)];
        let [certificate, key, leaf] =
            [names::intermediate_secret(name), names::intermediate_key_secret(name), common::mtls_secret(name)];
        let (bundle, binding, certificate, key, leaf) = futures::join!(
            bundles.get_opt(&bundle_name),
            bindings.get_opt(&binding_name),
            self.secrets.read(namespace, &certificate),
            self.secrets.read(namespace, &key),
            self.secrets.read(namespace, &leaf),
        );
        let scope = Scope::cluster(namespace, name)?;
        let (intermediate, authority) = stored_intermediate((certificate, key), uid, &scope, &in_force.trusted, now);
        let (leaf, written, seen) = read_leaf(leaf, uid, &scope, &in_force.trusted, now);
        let reading = Reading {
            cluster_uid: uid.to_owned(),
            bundle: bundle
                .map_err(|error| Error::read(format!("the ValkeyCertificateBundle {bundle_name}"), &error))?,
            binding: binding
                .map_err(|error| Error::read(format!("the ValkeyCertificateBinding {binding_name}"), &error))?,
            intermediate,
            leaf,
            written,
        };
        Ok((reading, Keys { intermediate: authority, leaf: seen }))
    }
}

type Answer = Result<Option<SecretSeen>, String>;

fn stored_intermediate(
    (certificate, key): (Answer, Answer),
    uid: &str,
    scope: &Scope,
    trusted: &Bundle,
    now: Timestamp,
) -> (Found<Intermediate>, Option<Authority>) {
    let (certificate, key) = match (ours(certificate, uid), ours(key, uid)) {
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

/// One that goes with an earlier cluster of this name is as good as gone: the garbage collector takes it soon.
fn ours(answer: Answer, uid: &str) -> Found<SecretSeen> {
    match answer {
        Err(why) => Found::Unreadable(why),
        Ok(None) => Found::Absent,
        Ok(Some(seen)) if seen.ours && seen.controller.as_deref() == Some(uid) => Found::Whole(seen),
        Ok(Some(seen)) if seen.ours => Found::Absent,
        Ok(Some(_)) => Found::Unreadable(
            "a Secret of the name that is needed belongs to somebody else: delete it, or name the cluster otherwise"
                .to_owned(),
        ),
    }
}

fn read_leaf(
    answer: Answer,
    uid: &str,
    scope: &Scope,
    trusted: &Bundle,
    now: Timestamp,
) -> (Found<Leaf>, Timestamp, Option<SecretSeen>) {
    let seen = match ours(answer, uid) {
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
