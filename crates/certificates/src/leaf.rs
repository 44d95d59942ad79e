//! When the leaf of a cluster is made anew. Pure.

use crate::cluster::Policy;
use crate::found::Found;
use jiff::{SignedDuration, Timestamp};
use pki::{Lifetime, Rotation, Thumbprint, leaf_rotation};
use std::collections::BTreeSet;
use std::fmt;

/// A stored leaf with its key and the roots beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub thumbprint: Thumbprint,
    /// The intermediate that signed it.
    pub issuer: Thumbprint,
    /// The root it leads to.
    pub root: Thumbprint,
    /// The roots in the same Secret, which the sidecars trust.
    pub roots: BTreeSet<Thumbprint>,
    pub lifetime: Lifetime,
}

/// What is to be done about the Secret that the pods mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafStep {
    Keep,
    /// The same leaf beside other roots.
    WriteRoots,
    Issue(Why),
    /// It is time, but an orchestration is open.
    Postpone(Why),
}

/// Why a certificate is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    First,
    /// What was stored is gone or spoilt.
    Repair(String),
    Due,
    Expired,
    /// The authority above it changed.
    NewAuthority,
    /// The policy asks for another length of life.
    OtherValidity,
}

impl Why {
    /// Absent is the first time, until somebody knows better.
    pub(crate) fn of_lack<T>(found: &Found<T>) -> impl Fn(String) -> Why {
        let first = matches!(found, Found::Absent);
        move |why| if first { Why::First } else { Why::Repair(why) }
    }

    /// Whether the present one still does its work, so that the change can wait.
    fn can_wait(&self) -> bool {
        matches!(self, Why::Due | Why::NewAuthority | Why::OtherValidity)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::First => f.write_str("there is none yet"),
            Why::Repair(why) => write!(f, "what was stored is of no use: {why}"),
            Why::Due => f.write_str("it is due"),
            Why::Expired => f.write_str("it has expired"),
            Why::NewAuthority => f.write_str("the authority above it changed"),
            Why::OtherValidity => f.write_str("another validity is asked for"),
        }
    }
}

/// `issuer` is the intermediate that would sign; None when that one is just being replaced.
pub(crate) fn leaf_step(
    found: &Found<Leaf>,
    issuer: Option<(&Thumbprint, Lifetime)>,
    trusted: &BTreeSet<Thumbprint>,
    policy: &Policy,
    orchestrating: bool,
    now: Timestamp,
) -> LeafStep {
    let Found::Whole(leaf) = found else {
        return found.lack().map(Why::of_lack(found)).map_or(LeafStep::Keep, LeafStep::Issue);
    };
    match reason(leaf, issuer, policy, now) {
        Some(why) if orchestrating && why.can_wait() && !is_nearly_over(leaf.lifetime, now) => LeafStep::Postpone(why),
        Some(why) => LeafStep::Issue(why),
        None if leaf.roots != *trusted => LeafStep::WriteRoots,
        None => LeafStep::Keep,
    }
}

fn reason(leaf: &Leaf, issuer: Option<(&Thumbprint, Lifetime)>, policy: &Policy, now: Timestamp) -> Option<Why> {
    match (leaf_rotation(leaf.lifetime, policy.percent, now), issuer) {
        (Rotation::Expired(_), _) => Some(Why::Expired),
        (_, Some((issuer, _))) if leaf.issuer != *issuer => Some(Why::NewAuthority),
        (_, None) => Some(Why::NewAuthority),
        (Rotation::Due(_), _) => Some(Why::Due),
        (_, Some((_, issuer))) if !has_wanted_length(leaf.lifetime, issuer, policy) => Some(Why::OtherValidity),
        _ => None,
    }
}

/// Certificates count in whole seconds, and none outlives its issuer.
fn has_wanted_length(leaf: Lifetime, issuer: Lifetime, policy: &Policy) -> bool {
    let validity = SignedDuration::try_from(policy.validity).unwrap_or(SignedDuration::MAX);
    let most = issuer.expires_at.duration_since(leaf.issued_at);
    let difference = leaf.expires_at.duration_since(leaf.issued_at) - validity.min(most);
    difference.abs() <= SignedDuration::from_secs(2)
}

/// The last tenth: waiting longer could end in an expired certificate.
fn is_nearly_over(lifetime: Lifetime, now: Timestamp) -> bool {
    let length = lifetime.expires_at.duration_since(lifetime.issued_at);
    lifetime.expires_at.duration_since(now) * 10 < length
}
