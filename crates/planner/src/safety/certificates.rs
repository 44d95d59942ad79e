//! The rules for Secrets with certificates: when one may be replaced. Pure.

use super::writes::{Verdict, ensure};
use crate::identities::{Certificates, CertificatesRead};
use crate::observation::Observation;
use certificates::Found;
use jiff::Timestamp;
use pki::{Lifetime, Thumbprint};
use serde_json::Value;

fn read(observation: &Observation) -> Result<&CertificatesRead, String> {
    match &observation.certificates {
        Certificates::Read(read) => Ok(read),
        _ => Err("what is stored was not read".to_owned()),
    }
}

/// Only what was read is replaced, nothing of others, and under an orchestration only what would not outlast it.
pub fn issued(replaces: Option<&Thumbprint>, observation: &Observation, now: Timestamp) -> Verdict {
    let view = &read(observation)?.view;
    ensure(!matches!(view.leaf, Found::Unreadable(_)), "the certificate is not ours, or could not be read")?;
    ensure(!matches!(view.intermediate, Found::Unreadable(_)), "the intermediate is not ours, or could not be read")?;
    let Some(leaf) = view.leaf.whole() else { return Ok(()) };
    ensure(replaces == Some(&leaf.thumbprint), "another certificate is there than the one to be replaced")?;
    let running = observation.nodes.as_ref().is_some_and(|nodes| nodes.running.is_some());
    ensure(!running || is_nearly_over(leaf.lifetime, now), "an orchestration is open, and sidecars would connect anew")
}

/// The last tenth of its life has begun.
fn is_nearly_over(lifetime: Lifetime, now: Timestamp) -> bool {
    let left = lifetime.expires_at.as_second() - now.as_second();
    left * 10 < lifetime.expires_at.as_second() - lifetime.issued_at.as_second()
}

/// No root is taken away that the present certificate leads to: nobody would trust it any more.
pub fn with_roots(beside: &Thumbprint, observation: &Observation) -> Verdict {
    let view = &read(observation)?.view;
    let leaf = view.leaf.whole().filter(|leaf| leaf.thumbprint == *beside);
    let leaf = leaf.ok_or("another certificate is there than the one to write beside")?;
    ensure(view.trusted.contains(&leaf.root), "the certificate leads to a root that would not be trusted")
}

/// What shows certificates belongs to this cluster, or to what belongs to it.
pub fn shown(manifest: &Value, observation: &Observation) -> Verdict {
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let bundle = read(observation)?.bundle.as_ref().and_then(|bundle| bundle.metadata.uid.as_deref());
    let owner = text("/metadata/ownerReferences/0/uid");
    ensure(text("/metadata/namespace") == observation.cluster.namespace, "the object is in another namespace")?;
    ensure(owner == observation.cluster.uid || Some(owner) == bundle, "the object belongs to another cluster")
}
