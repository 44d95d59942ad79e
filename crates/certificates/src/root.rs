//! What to do next about the root: make it, write it back, or lead everybody from one to the next. Pure and level-triggered.
//! Two Secrets hold a root: the one the ValkeyCA names is the root that is wanted, the signing one the root in force.

use crate::found::Found;
use jiff::Timestamp;
use pki::{Handover, Lifetime, Party, Rotation, Step, Thumbprint, root_rotation};
use std::collections::BTreeMap;
use std::time::Duration;

/// Who made a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Operator,
    Own,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub thumbprint: Thumbprint,
    pub lifetime: Lifetime,
}

/// What is in the Secret that the ValkeyCA names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// By the mark on the Secret, if it fits what is in it; an absent one is nobody's yet.
    pub source: Source,
    pub root: Found<Stored>,
}

/// The root in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    pub root: Stored,
    pub source: Source,
    /// The Secret it came from.
    pub came_from: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootView {
    /// The Secret the ValkeyCA names.
    pub secret: String,
    pub wanted: Wanted,
    pub signing: Option<Signing>,
    /// The roots everybody shall trust now, with the moments they end.
    pub trusted: BTreeMap<Thumbprint, Timestamp>,
    /// Everybody who verifies or is verified; asked for only while more than one root is about.
    pub parties: Vec<Party>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootStep {
    /// Make a root and put it into the Secret that is named.
    Make,
    /// Put the root in force back into the Secret that is named.
    WriteBack,
    /// Trust the wanted root beside the others.
    Trust,
    /// The wanted root is in force from now on.
    Sign,
    /// Trust no root but the one in force.
    RetireOthers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootPlan {
    /// One at a time: after it everything is looked at again.
    pub step: Option<RootStep>,
    /// Why the wanted root is not taken.
    pub refused: Option<String>,
    /// Why it could not be looked at.
    pub unreadable: Option<String>,
    /// What was spoilt and is made good.
    pub repaired: Option<String>,
    /// Who does not trust the new root yet.
    pub distrustful: Vec<String>,
    /// Who still shows a certificate below an old root.
    pub behind: Vec<String>,
    /// When the root in force will be replaced.
    pub next: Option<Timestamp>,
}

/// A whole intermediate must fit below a root.
pub fn root_plan(view: &RootView, intermediate_validity: Duration, now: Timestamp) -> RootPlan {
    let mut plan = RootPlan {
        step: None,
        refused: None,
        unreadable: None,
        repaired: None,
        distrustful: Vec::new(),
        behind: Vec::new(),
        next: None,
    };
    let target = target(view, &mut plan, intermediate_validity, now);
    if let (None, Some(target)) = (&plan.step, target) {
        hand_over(view, target, &mut plan, now);
    }
    plan.next = next(view, intermediate_validity, now);
    plan
}

/// The root everybody shall end at; None when there is nothing to go by.
fn target<'a>(
    view: &'a RootView,
    plan: &mut RootPlan,
    intermediate_validity: Duration,
    now: Timestamp,
) -> Option<&'a Stored> {
    let signing = view.signing.as_ref().map(|signing| &signing.root);
    match &view.wanted.root {
        Found::Whole(root) => {
            if is_due(view, root, intermediate_validity, now) {
                plan.step = Some(RootStep::Make);
            }
            Some(root)
        }
        Found::Unreadable(why) => {
            plan.unreadable = Some(why.clone());
            None
        }
        Found::Absent => {
            absent(view, plan);
            signing
        }
        Found::Spoilt(why) if view.wanted.source == Source::Operator => {
            plan.repaired = Some(why.clone());
            plan.step = Some(if is_origin(view) { RootStep::WriteBack } else { RootStep::Make });
            signing
        }
        Found::Spoilt(why) => {
            plan.refused = Some(why.clone());
            signing
        }
    }
}

fn absent(view: &RootView, plan: &mut RootPlan) {
    match &view.signing {
        Some(signing) if is_origin(view) && signing.source == Source::Own => {
            let secret = &view.secret;
            plan.refused = Some(format!("the Secret {secret} is gone: put your root back, or name another Secret"));
        }
        Some(_) if is_origin(view) => {
            plan.repaired = Some(format!("the Secret {} was gone", view.secret));
            plan.step = Some(RootStep::WriteBack);
        }
        _ => plan.step = Some(RootStep::Make),
    }
}

/// Whether the root in force came from the Secret that is named now.
fn is_origin(view: &RootView) -> bool {
    view.signing.as_ref().is_some_and(|signing| signing.came_from == view.secret)
}

/// Only a root of the operator's own making, and only when no change is under way.
fn is_due(view: &RootView, root: &Stored, intermediate_validity: Duration, now: Timestamp) -> bool {
    let in_force = view.signing.as_ref().is_some_and(|signing| signing.root.thumbprint == root.thumbprint);
    let alone = view.trusted.keys().all(|trusted| *trusted == root.thumbprint);
    view.wanted.source == Source::Operator
        && in_force
        && alone
        && root_rotation(root.lifetime, intermediate_validity, now).is_due()
}

fn hand_over(view: &RootView, target: &Stored, plan: &mut RootPlan, now: Timestamp) {
    let new = &target.thumbprint;
    let Some(signing) = &view.signing else {
        let step = if view.trusted.contains_key(new) { RootStep::Sign } else { RootStep::Trust };
        return plan.step = Some(step);
    };
    // The one that lasts longest: as long as somebody may show a certificate below any of them, all stay.
    let others = view.trusted.iter().filter(|(trusted, _)| *trusted != new).max_by_key(|(_, end)| **end);
    let others = others.map(|(trusted, _)| trusted);
    let in_force = &signing.root.thumbprint;
    let Some(old) = (if in_force == new { others } else { Some(in_force) }) else {
        return plan.step = (!view.trusted.contains_key(new)).then_some(RootStep::Trust);
    };
    let handover = Handover {
        old: old.clone(),
        new: new.clone(),
        published: view.trusted.keys().cloned().collect(),
        signing: in_force.clone(),
        old_expired: view.trusted.get(old).is_some_and(|end| now >= *end),
        parties: view.parties.clone(),
    };
    match handover.next_for_root() {
        Step::Publish => plan.step = Some(RootStep::Trust),
        Step::AwaitTrust(names) => plan.distrustful = names,
        Step::SignWithNew => plan.step = Some(RootStep::Sign),
        Step::AwaitUse(names) => plan.behind = names,
        Step::RetireOld => plan.step = Some(RootStep::RetireOthers),
        Step::Done => {}
    }
}

fn next(view: &RootView, intermediate_validity: Duration, now: Timestamp) -> Option<Timestamp> {
    let signing = view.signing.as_ref().filter(|signing| signing.source == Source::Operator)?;
    match root_rotation(signing.root.lifetime, intermediate_validity, now) {
        Rotation::Scheduled(at) => Some(at),
        _ => None,
    }
}
