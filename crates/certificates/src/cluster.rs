//! What to do next about the identity of one cluster. Pure: a total function of what was found and the time.

use crate::found::Found;
use crate::intermediate::{self, Intermediate, intermediate_step};
use crate::leaf::{Leaf, LeafStep, Why, leaf_step};
use jiff::Timestamp;
use pki::{Percent, Thumbprint, leaf_rotation};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long things live, from the specs of cluster and bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub validity: Duration,
    pub percent: Percent,
    /// None: the user replaces the intermediate.
    pub renew_before: Option<Duration>,
}

/// A pod of the cluster, and which leaf it shows; None when it could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    pub name: String,
    pub presents: Option<Thumbprint>,
}

/// Everything the decision is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The root that signs now.
    pub signing: Thumbprint,
    /// The roots that must be trusted now.
    pub trusted: BTreeSet<Thumbprint>,
    pub intermediate: Found<Intermediate>,
    pub leaf: Found<Leaf>,
    /// Whether there has been a leaf before: then what is missing was lost.
    pub known: bool,
    pub orchestrating: bool,
    pub pods: Vec<PodView>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPlan {
    /// Make a new intermediate first, because.
    pub intermediate: Option<Why>,
    pub leaf: LeafStep,
    /// When something will be due, if nothing else happens.
    pub next: Option<Timestamp>,
}

pub fn cluster_plan(view: &ClusterView, policy: &Policy, now: Timestamp) -> ClusterPlan {
    let wanted = intermediate_step(&view.intermediate, &view.signing, policy.renew_before, policy.validity, now);
    let wanted = wanted.map(|why| remember(why, view.known));
    let issuer = view.intermediate.whole().filter(|_| wanted.is_none());
    let issuer = issuer.map(|intermediate| (&intermediate.thumbprint, intermediate.lifetime));
    // Nobody can sign: an intermediate that cannot be read is left alone, and so is the leaf below it.
    if issuer.is_none() && wanted.is_none() {
        return ClusterPlan { intermediate: None, leaf: roots_only(view), next: None };
    }
    let leaf = match leaf_step(&view.leaf, issuer, &view.trusted, policy, view.orchestrating, now) {
        LeafStep::Issue(why) => LeafStep::Issue(remember(why, view.known)),
        other => other,
    };
    // An intermediate is of use only with a leaf below it, so both wait together.
    let intermediate = wanted.filter(|_| matches!(leaf, LeafStep::Issue(_)));
    let leaf = postponed_with_roots(leaf, view);
    ClusterPlan { intermediate, leaf, next: next(view, policy, now) }
}

/// What is missing although it was there before was lost.
fn remember(why: Why, known: bool) -> Why {
    match why {
        Why::First if known => Why::Repair("it is not there".to_owned()),
        other => other,
    }
}

fn roots_only(view: &ClusterView) -> LeafStep {
    let other = view.leaf.whole().is_some_and(|leaf| leaf.roots != view.trusted);
    if other { LeafStep::WriteRoots } else { LeafStep::Keep }
}

/// New roots are told even under an orchestration: they change no connection.
fn postponed_with_roots(step: LeafStep, view: &ClusterView) -> LeafStep {
    match step {
        LeafStep::Postpone(why) => match roots_only(view) {
            LeafStep::Keep => LeafStep::Postpone(why),
            write => write,
        },
        other => other,
    }
}

fn next(view: &ClusterView, policy: &Policy, now: Timestamp) -> Option<Timestamp> {
    let leaf = view.leaf.whole().and_then(|leaf| leaf_rotation(leaf.lifetime, policy.percent, now).next());
    let above = view.intermediate.whole();
    let above = above.and_then(|found| intermediate::rotation(found, policy.renew_before, policy.validity, now).next());
    leaf.into_iter().chain(above).min()
}
