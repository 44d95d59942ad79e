//! What bundle and binding of a cluster say, printed from what was found and decided. Pure.

use crate::cluster::{ClusterPlan, ClusterView, PodView, Policy};
use crate::found::Found;
use crate::intermediate::{self, Intermediate};
use crate::leaf::{Leaf, LeafStep, Why};
use crate::words::{moment, names};
use api::certificates::{
    ActiveCertificate, CertificateCondition, CertificateFinding, CertificateReason, DeprecatedCertificate, Purpose,
    ValkeyCertificateBindingSpec, ValkeyCertificateBindingStatus, ValkeyCertificateBundleStatus, advance,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pki::{SpiffeId, leaf_rotation};

/// Replaced leaves that are remembered at most; each lives for minutes.
const REMEMBERED: usize = 16;
const SHOWN: usize = 10;
/// Pods get this long to take a new leaf before it is told that some have not.
const SETTLING: SignedDuration = SignedDuration::from_secs(30);

pub fn bundle_status(
    view: &ClusterView,
    plan: &ClusterPlan,
    policy: &Policy,
    id: &SpiffeId,
    previous: (&ValkeyCertificateBundleStatus, Option<i64>),
    now: Timestamp,
) -> ValkeyCertificateBundleStatus {
    let (before, generation) = previous;
    let found = view.intermediate.whole();
    let rotation = found.map(|found| intermediate::rotation(found, policy.renew_before, policy.validity, now));
    let findings = [bundle_ready(view, plan, before, now), bundle_rotating(found, plan, policy)];
    ValkeyCertificateBundleStatus {
        observed_generation: generation,
        thumbprint: found.map(|found| found.thumbprint.to_string()),
        root_thumbprint: found.and_then(|found| found.root.as_ref()).map(ToString::to_string),
        spiffe_id: Some(id.to_string()),
        next_rotation: rotation
            .filter(|_| policy.renew_before.is_some())
            .and_then(|rotation| rotation.next())
            .map(Time),
        plan: None,
        conditions: advance(&before.conditions, &findings, generation, now),
    }
}

/// Status, reason and message of a condition.
type Statement = (Option<bool>, CertificateReason, String);

fn bundle_ready(
    view: &ClusterView,
    plan: &ClusterPlan,
    before: &ValkeyCertificateBundleStatus,
    now: Timestamp,
) -> CertificateFinding {
    let thumbprint = view.intermediate.whole().map(|found| found.thumbprint.as_str());
    let repaired = repaired_before(&before.conditions, before.thumbprint.as_deref() == thumbprint);
    let finding = match &view.intermediate {
        Found::Whole(found) if now >= found.lifetime.expires_at => ended(found.lifetime.expires_at),
        Found::Whole(found) => whole(plan.intermediate.as_ref(), repaired, found.lifetime.expires_at),
        other => missing(other),
    };
    stated(CertificateCondition::Ready, finding)
}

fn bundle_rotating(found: Option<&Intermediate>, plan: &ClusterPlan, policy: &Policy) -> CertificateFinding {
    let finding = match (&plan.leaf, policy.renew_before, found) {
        (LeafStep::Postpone(why), ..) => postponed(why),
        (_, None, Some(found)) => {
            let end = moment(found.lifetime.expires_at);
            (Some(false), CertificateReason::RotationManual, format!("autoRotate is false: it ends at {end}"))
        }
        _ => not_due(),
    };
    stated(CertificateCondition::Rotating, finding)
}

/// The list of certificates in use, as it should be.
pub fn binding_spec(
    cluster: &str,
    leaf: &Leaf,
    place: (&str, &str),
    pods: &[PodView],
    before: Option<&ValkeyCertificateBindingSpec>,
    now: Timestamp,
) -> ValkeyCertificateBindingSpec {
    let (bundle, secret) = place;
    let known = before.into_iter().flat_map(|spec| &spec.active).find(|active| active.purpose == Purpose::Mtls);
    let same = known.filter(|active| active.thumbprint == leaf.thumbprint.as_str());
    let active = ActiveCertificate {
        purpose: Purpose::Mtls,
        bundle_ref: bundle.to_owned(),
        secret_name: secret.to_owned(),
        thumbprint: leaf.thumbprint.to_string(),
        issued_at: Time(leaf.lifetime.issued_at),
        expires_at: Time(leaf.lifetime.expires_at),
        // A pod that starts anew mounts the newest, so what was true of a leaf stays true.
        active: same.is_some_and(|active| active.active) || all_switched(leaf, pods),
    };
    let deprecated = deprecated(&active, known, before, now);
    ValkeyCertificateBindingSpec { cluster_ref: cluster.to_owned(), active: vec![active], deprecated }
}

fn deprecated(
    active: &ActiveCertificate,
    known: Option<&ActiveCertificate>,
    before: Option<&ValkeyCertificateBindingSpec>,
    now: Timestamp,
) -> Vec<DeprecatedCertificate> {
    let replaced = known.filter(|known| known.thumbprint != active.thumbprint).map(|known| DeprecatedCertificate {
        purpose: known.purpose,
        thumbprint: known.thumbprint.clone(),
        issued_at: known.issued_at.clone(),
        expires_at: known.expires_at.clone(),
    });
    let older = before.into_iter().flat_map(|spec| spec.deprecated.clone()).chain(replaced);
    let mut left: Vec<_> = older.filter(|old| !active.active && old.expires_at.0 > now).collect();
    left.drain(..left.len().saturating_sub(REMEMBERED));
    left
}

fn shows(leaf: &Leaf, pod: &PodView) -> bool {
    pod.presents.as_ref() == Some(&leaf.thumbprint)
}

fn all_switched(leaf: &Leaf, pods: &[PodView]) -> bool {
    !pods.is_empty() && pods.iter().all(|pod| shows(leaf, pod))
}

pub fn binding_status(
    view: &ClusterView,
    plan: &ClusterPlan,
    policy: &Policy,
    previous: (&ValkeyCertificateBindingStatus, Option<i64>),
    now: Timestamp,
) -> ValkeyCertificateBindingStatus {
    let (before, generation) = previous;
    let leaf = view.leaf.whole();
    let (switched, waiting_for) = progress(leaf, &view.pods, before, now);
    let findings = [binding_ready(view, plan, before, now), binding_rotating(plan, &waiting_for)];
    ValkeyCertificateBindingStatus {
        observed_generation: generation,
        next_rotation: leaf.and_then(|leaf| leaf_rotation(leaf.lifetime, policy.percent, now).next()).map(Time),
        switched,
        plan: plan_text(plan, &waiting_for),
        waiting_for: waiting_for.into_iter().take(SHOWN).collect(),
        conditions: advance(&before.conditions, &findings, generation, now),
    }
}

/// While pods are just taking a new leaf, what was told before stands: each step would be a write.
fn progress(
    leaf: Option<&Leaf>,
    pods: &[PodView],
    before: &ValkeyCertificateBindingStatus,
    now: Timestamp,
) -> (Option<String>, Vec<String>) {
    let Some(leaf) = leaf else { return (None, Vec::new()) };
    let behind: Vec<String> = pods.iter().filter(|pod| !shows(leaf, pod)).map(|pod| pod.name.clone()).collect();
    if !behind.is_empty() && now.duration_since(leaf.lifetime.issued_at) < SETTLING {
        return (before.switched.clone(), before.waiting_for.clone());
    }
    (Some(format!("{}/{}", pods.len() - behind.len(), pods.len())), behind)
}

fn binding_ready(
    view: &ClusterView,
    plan: &ClusterPlan,
    before: &ValkeyCertificateBindingStatus,
    now: Timestamp,
) -> CertificateFinding {
    let issued = matches!(plan.leaf, LeafStep::Issue(_));
    let why = match &plan.leaf {
        LeafStep::Issue(why) => Some(why),
        _ => None,
    };
    let finding = match &view.leaf {
        Found::Whole(leaf) if now >= leaf.lifetime.expires_at => ended(leaf.lifetime.expires_at),
        Found::Whole(leaf) => whole(why, repaired_before(&before.conditions, !issued), leaf.lifetime.expires_at),
        other => missing(other),
    };
    // Its end is at another moment every few hours and stands in the spec: in a message it would only be noise.
    let finding = match finding {
        (status, CertificateReason::Valid, _) => {
            (status, CertificateReason::Valid, "the certificate is there and valid".to_owned())
        }
        other => other,
    };
    stated(CertificateCondition::Ready, finding)
}

fn binding_rotating(plan: &ClusterPlan, waiting: &[String]) -> CertificateFinding {
    let finding = match &plan.leaf {
        LeafStep::Postpone(why) => postponed(why),
        _ if !waiting.is_empty() => {
            let message = format!("{} do not show the newest certificate: {}", waiting.len(), names(waiting));
            (Some(true), CertificateReason::AwaitingUse, message)
        }
        _ => not_due(),
    };
    stated(CertificateCondition::Rotating, finding)
}

fn plan_text(plan: &ClusterPlan, waiting: &[String]) -> Option<String> {
    match &plan.leaf {
        LeafStep::Postpone(why) => Some(format!("replace the certificate after the orchestration: {why}")),
        _ if !waiting.is_empty() => Some(format!("waits until {} show the newest certificate", names(waiting))),
        _ => None,
    }
}

fn stated(condition: CertificateCondition, (status, reason, message): Statement) -> CertificateFinding {
    CertificateFinding { condition, status, reason, message }
}

fn ended(at: Timestamp) -> Statement {
    (Some(false), CertificateReason::CertificateExpired, format!("it ended at {}", moment(at)))
}

fn missing<T>(found: &Found<T>) -> Statement {
    match found {
        Found::Unreadable(why) => (None, CertificateReason::SecretUnreadable, why.clone()),
        _ => (Some(false), CertificateReason::Issuing, "it is being made".to_owned()),
    }
}

fn whole(made: Option<&Why>, repaired: Option<String>, end: Timestamp) -> Statement {
    match (made, repaired) {
        (Some(Why::Repair(why)), _) => (Some(true), CertificateReason::Repaired, format!("made good again: {why}")),
        (_, Some(message)) => (Some(true), CertificateReason::Repaired, message),
        _ => (Some(true), CertificateReason::Valid, format!("it is valid until {}", moment(end))),
    }
}

/// A repair stays told until the next certificate, so that somebody gets to read it.
fn repaired_before(conditions: &[Condition], same: bool) -> Option<String> {
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && same)?;
    (ready.reason == CertificateReason::Repaired.as_str()).then(|| ready.message.clone())
}

fn postponed(why: &Why) -> Statement {
    let message = format!("an orchestration is open, and certificates do not change under it ({why})");
    (Some(true), CertificateReason::AwaitingOrchestration, message)
}

fn not_due() -> Statement {
    (Some(false), CertificateReason::NotDue, "nothing is being replaced".to_owned())
}
