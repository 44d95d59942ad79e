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
    /// The root for which nobody is waited: an administrator's word, because any sidecar could hold a stolen root in place.
    pub retire_now: Option<Thumbprint>,
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
    /// Trust this one no longer, whoever still uses it.
    Retire(Thumbprint),
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
    /// The root that stays for them.
    pub kept: Option<Thumbprint>,
    /// A root is to be retired now, and it is not that one.
    pub another_named: bool,
    /// Who is not waited for in this step, because the root is to be retired now.
    pub without: Vec<String>,
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
        kept: None,
        another_named: false,
        without: Vec::new(),
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
    let in_force = &signing.root.thumbprint;
    if let Some(root) = retired_now(view, new, in_force) {
        plan.without = names(view, |party| party.presents.as_ref().is_none_or(|shown| shown == root));
        return plan.step = Some(RootStep::Retire(root.clone()));
    }
    // The one that lasts longest: as long as somebody may show a certificate below any of them, all stay.
    let others = view.trusted.iter().filter(|(trusted, _)| *trusted != new).max_by_key(|(_, end)| **end);
    let others = others.map(|(trusted, _)| trusted);
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
        // `old` signs: it can go only when the new one does.
        Step::AwaitTrust(names) if view.retire_now.as_ref() == Some(old) => {
            (plan.without, plan.step) = (names, Some(RootStep::Sign));
        }
        Step::AwaitTrust(names) => {
            plan.distrustful = names;
            keep(view, old, plan);
        }
        Step::SignWithNew => plan.step = Some(RootStep::Sign),
        Step::AwaitUse(names) => {
            plan.behind = names;
            keep(view, old, plan);
        }
        Step::RetireOld => plan.step = Some(RootStep::RetireOthers),
        Step::Done => {}
    }
}

fn keep(view: &RootView, old: &Thumbprint, plan: &mut RootPlan) {
    plan.kept = Some(old.clone());
    plan.another_named = view.retire_now.is_some();
}

/// The root that goes at once: neither the one in force nor the one that is wanted, whatever an administrator wrote.
fn retired_now<'a>(view: &'a RootView, wanted: &Thumbprint, in_force: &Thumbprint) -> Option<&'a Thumbprint> {
    let named = view.retire_now.as_ref().filter(|root| view.trusted.contains_key(*root))?;
    (named != wanted && named != in_force && view.trusted.contains_key(in_force)).then_some(named)
}

fn names(view: &RootView, applies: impl Fn(&Party) -> bool) -> Vec<String> {
    view.parties.iter().filter(|party| applies(party)).map(|party| party.name.clone()).collect()
}

fn next(view: &RootView, intermediate_validity: Duration, now: Timestamp) -> Option<Timestamp> {
    let signing = view.signing.as_ref().filter(|signing| signing.source == Source::Operator)?;
    match root_rotation(signing.root.lifetime, intermediate_validity, now) {
        Rotation::Scheduled(at) => Some(at),
        _ => None,
    }
}
