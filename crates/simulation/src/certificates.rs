//! The certificates of the sidecars as the API server stores them: made by steps of the plan, lost by accident. In memory, without
//! keys.

use api::certificates::{ValkeyCertificateBinding, ValkeyCertificateBundle};
use certificates::{ClusterView, Found, Intermediate, Leaf, Policy};
use jiff::Timestamp;
use pki::{Lifetime, Percent, SpiffeId, Thumbprint};
use planner::{BUNDLE, Certificates, CertificatesRead, Step};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub struct Stored {
    id: SpiffeId,
    intermediate: Found<Intermediate>,
    leaf: Found<Leaf>,
    bundle: Option<ValkeyCertificateBundle>,
    binding: Option<ValkeyCertificateBinding>,
    made: u64,
}

impl Stored {
    pub fn new(id: SpiffeId) -> Stored {
        Stored { id, intermediate: Found::Absent, leaf: Found::Absent, bundle: None, binding: None, made: 0 }
    }

    pub fn write(&mut self, step: &Step, now: Timestamp) {
        match step {
            Step::IssueCertificate { intermediate, .. } => self.issue(intermediate.is_some(), now),
            Step::ShowCertificate { kind, manifest } if *kind == BUNDLE => self.bundle = shown(manifest),
            Step::ShowCertificate { manifest, .. } => self.binding = shown(manifest),
            _ => {}
        }
    }

    fn issue(&mut self, with_intermediate: bool, now: Timestamp) {
        self.made += 1;
        if with_intermediate {
            let thumbprint = Thumbprint::recorded(&format!("intermediate-{}", self.made));
            self.intermediate =
                Found::Whole(Intermediate { thumbprint, root: Some(root()), lifetime: lifetime(now, 365 * DAY) });
        }
        let Some(issuer) = self.intermediate.whole().map(|found| found.thumbprint.clone()) else { return };
        let thumbprint = Thumbprint::recorded(&format!("leaf-{}", self.made));
        let lifetime = lifetime(now, 6 * HOUR);
        self.leaf = Found::Whole(Leaf { thumbprint, issuer, root: root(), roots: roots(), lifetime });
    }

    /// Somebody deletes the Secret that the pods mount.
    pub fn lose(&mut self) {
        self.leaf = Found::Absent;
    }

    pub fn observed(&self) -> Certificates {
        let view = ClusterView {
            signing: root(),
            trusted: roots(),
            intermediate: self.intermediate.clone(),
            leaf: self.leaf.clone(),
            known: self.made > 0,
            orchestrating: false,
            pods: Vec::new(),
        };
        let policy = Policy { validity: 6 * HOUR, percent: Percent::EARLIEST, renew_before: Some(30 * DAY) };
        let (id, written) = (self.id.clone(), Timestamp::UNIX_EPOCH);
        Certificates::Read(Box::new(CertificatesRead {
            view,
            policy,
            id,
            bundle: self.bundle.clone(),
            binding: self.binding.clone(),
            written,
            foreign: None,
            immutable: None,
            made: None,
        }))
    }
}

/// As the API server would have it, with an identity of its own.
fn shown<K: DeserializeOwned>(manifest: &Value) -> Option<K> {
    let mut object = manifest.clone();
    let uid = json!(format!("uid-of-{}", manifest.pointer("/kind").and_then(Value::as_str).unwrap_or_default()));
    object.pointer_mut("/metadata").and_then(Value::as_object_mut)?.insert("uid".to_owned(), uid);
    serde_json::from_value(object).ok()
}

fn root() -> Thumbprint {
    Thumbprint::recorded("root")
}

fn roots() -> BTreeSet<Thumbprint> {
    BTreeSet::from([root()])
}

fn lifetime(now: Timestamp, length: Duration) -> Lifetime {
    Lifetime { issued_at: now, expires_at: now + length }
}
