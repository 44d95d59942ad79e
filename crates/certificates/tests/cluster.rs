//! The identity of a cluster, with a clock of the test's own: when something is made, when it waits, and when there is nothing to do.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::string_slice, reason = "a test")]

use certificates::{
    ClusterPlan, ClusterView, Found, Intermediate, Leaf, LeafStep, PodView, Policy, Why, binding_spec, binding_status,
    cluster_plan,
};
use jiff::Timestamp;
use pki::{Lifetime, Percent, Thumbprint};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

const HOUR: i64 = 3600;
const YEAR: i64 = 365 * 24 * HOUR;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn print(text: &str) -> Thumbprint {
    Thumbprint::recorded(text)
}

fn life(start: i64, length: i64) -> Lifetime {
    Lifetime { issued_at: at(start), expires_at: at(start + length) }
}

fn policy() -> Policy {
    Policy {
        validity: Duration::from_secs(6 * 3600),
        percent: Percent::EARLIEST,
        renew_before: Some(Duration::from_secs(30 * 24 * 3600)),
    }
}

fn intermediate() -> Intermediate {
    Intermediate { thumbprint: print("1a"), root: Some(print("0a")), lifetime: life(0, YEAR) }
}

fn leaf() -> Leaf {
    let roots = BTreeSet::from([print("0a")]);
    Leaf { thumbprint: print("2a"), issuer: print("1a"), root: print("0a"), roots, lifetime: life(0, 6 * HOUR) }
}

fn settled() -> ClusterView {
    ClusterView {
        signing: print("0a"),
        trusted: BTreeSet::from([print("0a")]),
        intermediate: Found::Whole(intermediate()),
        leaf: Found::Whole(leaf()),
        known: true,
        orchestrating: false,
        pods: vec![PodView { name: "poc-0".into(), presents: Some(print("2a")) }],
    }
}

fn plan(view: &ClusterView, now: i64) -> ClusterPlan {
    cluster_plan(view, &policy(), at(now))
}

#[test]
fn once_settled_there_is_nothing_to_do_until_the_leaf_is_due() {
    let due = at(14_256);
    let quiet = ClusterPlan { intermediate: None, leaf: LeafStep::Keep, next: Some(due) };
    assert_eq!(plan(&settled(), 0), quiet);
    assert_eq!(plan(&settled(), 14_255), quiet);
    assert_eq!(plan(&settled(), 14_256).leaf, LeafStep::Issue(Why::Due));
    assert_eq!(plan(&settled(), 14_256).intermediate, None);
    assert_eq!(plan(&settled(), 6 * HOUR).leaf, LeafStep::Issue(Why::Expired));
}

#[test]
fn at_first_both_are_made() {
    let view = ClusterView { intermediate: Found::Absent, leaf: Found::Absent, known: false, ..settled() };
    let first = plan(&view, 0);
    assert_eq!((first.intermediate, first.leaf), (Some(Why::First), LeafStep::Issue(Why::First)));
}

#[test]
fn what_was_lost_or_spoilt_is_made_again_and_called_a_repair() {
    let lost = ClusterView { leaf: Found::Absent, ..settled() };
    assert!(matches!(plan(&lost, 0).leaf, LeafStep::Issue(Why::Repair(_))));
    assert_eq!(plan(&lost, 0).intermediate, None);
    let spoilt = ClusterView { leaf: Found::Spoilt("no key".into()), ..settled() };
    assert_eq!(plan(&spoilt, 0).leaf, LeafStep::Issue(Why::Repair("no key".into())));
    let above = ClusterView { intermediate: Found::Absent, ..settled() };
    assert!(matches!(plan(&above, 0).intermediate, Some(Why::Repair(_))));
    assert_eq!(plan(&above, 0).leaf, LeafStep::Issue(Why::NewAuthority));
}

#[test]
fn what_cannot_be_read_is_left_alone() {
    let leaf = ClusterView { leaf: Found::Unreadable("403".into()), ..settled() };
    assert_eq!((plan(&leaf, 0).intermediate, plan(&leaf, 0).leaf), (None, LeafStep::Keep));
    let above = ClusterView { intermediate: Found::Unreadable("403".into()), ..settled() };
    assert_eq!((plan(&above, 20_000).intermediate, plan(&above, 20_000).leaf), (None, LeafStep::Keep));
    let both = ClusterView { leaf: Found::Absent, ..above };
    assert_eq!((plan(&both, 0).intermediate, plan(&both, 0).leaf), (None, LeafStep::Keep));
}

#[test]
fn an_intermediate_that_is_due_brings_a_new_leaf_with_it() {
    let due = YEAR - 30 * 24 * HOUR;
    let young = Leaf { lifetime: life(due - 10, 6 * HOUR), ..leaf() };
    let view = ClusterView { leaf: Found::Whole(young), ..settled() };
    assert_eq!(plan(&view, due - 1).intermediate, None);
    let plan = plan(&view, due);
    assert_eq!((plan.intermediate, plan.leaf), (Some(Why::Due), LeafStep::Issue(Why::NewAuthority)));
}

#[test]
fn below_a_root_that_no_longer_signs_everything_is_made_anew() {
    let trusted = BTreeSet::from([print("0a"), print("0b")]);
    let view = ClusterView { signing: print("0b"), trusted, ..settled() };
    let plan = plan(&view, 0);
    assert_eq!((plan.intermediate, plan.leaf), (Some(Why::NewAuthority), LeafStep::Issue(Why::NewAuthority)));
}

#[test]
fn a_root_that_is_newly_trusted_is_told_with_the_same_leaf() {
    let view = ClusterView { trusted: BTreeSet::from([print("0a"), print("0b")]), ..settled() };
    assert_eq!(plan(&view, 0).leaf, LeafStep::WriteRoots);
    let busy = ClusterView { orchestrating: true, ..view };
    assert_eq!(plan(&busy, 15_000).leaf, LeafStep::WriteRoots, "even when the leaf itself has to wait");
}

#[test]
fn an_orchestration_postpones_a_change_but_not_past_the_end() {
    let view = ClusterView { orchestrating: true, ..settled() };
    assert_eq!(plan(&view, 15_000).leaf, LeafStep::Postpone(Why::Due));
    assert_eq!(plan(&view, 15_000).intermediate, None);
    assert_eq!(plan(&view, 21_000).leaf, LeafStep::Issue(Why::Due), "the last tenth of its life");
    let lost = ClusterView { leaf: Found::Absent, ..view };
    assert!(matches!(plan(&lost, 0).leaf, LeafStep::Issue(Why::Repair(_))));
}

#[test]
fn another_validity_is_taken_up_at_once() {
    let shorter = Policy { validity: Duration::from_secs(30), ..policy() };
    assert_eq!(cluster_plan(&settled(), &shorter, at(0)).leaf, LeafStep::Issue(Why::OtherValidity));
    // A leaf that ends with its intermediate is as long as it can be.
    let end = life(YEAR - HOUR, HOUR);
    let view = ClusterView { leaf: Found::Whole(Leaf { lifetime: end, ..leaf() }), ..settled() };
    let manual = Policy { renew_before: None, ..policy() };
    assert_eq!(cluster_plan(&view, &manual, at(YEAR - HOUR)).leaf, LeafStep::Keep);
}

#[test]
fn a_replaced_leaf_is_remembered_until_every_pod_shows_the_new_one() {
    let place = ("poc-cert-bundle", "poc-mtls");
    let pods = |shown: &str| vec![PodView { name: "poc-0".into(), presents: Some(print(shown)) }];
    let first = binding_spec("poc", &leaf(), place, &pods("2a"), None, at(0));
    assert!(first.active[0].active);
    let next = Leaf { thumbprint: print("2b"), lifetime: life(14_256, 6 * HOUR), ..leaf() };
    let during = binding_spec("poc", &next, place, &pods("2a"), Some(&first), at(14_256));
    assert_eq!((during.active[0].active, during.deprecated.len()), (false, 1));
    assert_eq!(during.deprecated[0].thumbprint, "2a");
    let after = binding_spec("poc", &next, place, &pods("2b"), Some(&during), at(14_260));
    assert_eq!((after.active[0].active, after.deprecated.len()), (true, 0));
    let restarted = vec![PodView { name: "poc-0".into(), presents: None }];
    let later = binding_spec("poc", &next, place, &restarted, Some(&after), at(14_300));
    assert_eq!(later, after, "a pod that starts anew takes nothing back");
}

#[test]
fn a_repair_stays_told_until_the_next_leaf() {
    let lost = ClusterView { leaf: Found::Absent, ..settled() };
    let repair = plan(&lost, 0);
    let told = binding_status(&settled(), &repair, &policy(), (&Default::default(), Some(1)), at(0));
    assert_eq!(told.conditions[0].reason, "Repaired");
    let still = binding_status(&settled(), &plan(&settled(), 60), &policy(), (&told, Some(1)), at(60));
    assert_eq!(still.conditions, told.conditions);
    let due = plan(&settled(), 14_256);
    let over = binding_status(&settled(), &due, &policy(), (&still, Some(1)), at(14_256));
    assert_eq!((over.conditions[0].status.as_str(), over.conditions[0].reason.as_str()), ("True", "Valid"));
}

/// What the operator does about a plan, with a counter for thumbprints.
fn perform(view: &mut ClusterView, plan: &ClusterPlan, policy: &Policy, now: i64, made: &mut u32) {
    let mut new = || {
        *made += 1;
        print(&format!("{made:04x}"))
    };
    if plan.intermediate.is_some() {
        let (thumbprint, root) = (new(), Some(view.signing.clone()));
        view.intermediate = Found::Whole(Intermediate { thumbprint, root, lifetime: life(now, YEAR) });
    }
    match (&plan.leaf, view.intermediate.whole()) {
        (LeafStep::Issue(_), Some(above)) => {
            let end = (now + policy.validity.as_secs() as i64).min(above.lifetime.expires_at.as_second());
            let lifetime = Lifetime { issued_at: at(now), expires_at: at(end) };
            let (issuer, root) = (above.thumbprint.clone(), view.signing.clone());
            view.leaf = Found::Whole(Leaf { thumbprint: new(), issuer, root, roots: view.trusted.clone(), lifetime });
            view.known = true;
        }
        (LeafStep::WriteRoots, _) => {
            if let Found::Whole(leaf) = &mut view.leaf {
                leaf.roots = view.trusted.clone();
            }
        }
        _ => {}
    }
}

proptest! {
    /// Whatever is lost, spoilt, changed above it or delayed: one look makes it good, the next has nothing to do, and no leaf
    /// in use ever expires while looks come in time.
    #[test]
    fn one_look_makes_everything_good_and_the_next_does_nothing(
        events in prop::collection::vec((0_u8..7, 1_i64..4_000), 1..60), validity in 30_u64..100_000, percent in 66_i64..=80,
    ) {
        let policy = Policy { validity: Duration::from_secs(validity), percent: Percent::try_from(percent).unwrap(), ..policy() };
        let mut view = ClusterView { intermediate: Found::Absent, leaf: Found::Absent, known: false, ..settled() };
        let (mut now, mut made) = (0, 0);
        for (event, step) in events {
            match event {
                0 => view.leaf = Found::Absent,
                1 => view.leaf = Found::Spoilt("x".into()),
                2 => view.intermediate = Found::Absent,
                3 => { view.signing = print(&format!("root{now}")); view.trusted.insert(view.signing.clone()); }
                4 => view.trusted = BTreeSet::from([view.signing.clone()]),
                _ => now += step.min(validity as i64 / 10 + 1),
            }
            // A root that is no longer trusted makes an intermediate below it of no use.
            if let Found::Whole(above) = &mut view.intermediate {
                above.root = above.root.clone().filter(|root| view.trusted.contains(root));
            }
            let first = cluster_plan(&view, &policy, at(now));
            perform(&mut view, &first, &policy, now, &mut made);
            let second = cluster_plan(&view, &policy, at(now));
            prop_assert_eq!((&second.intermediate, &second.leaf), (&None, &LeafStep::Keep), "after {:?}", first);
            let leaf = view.leaf.whole().unwrap();
            prop_assert!(leaf.lifetime.expires_at > at(now));
            prop_assert!(second.next.is_some_and(|next| next > at(now) && next <= leaf.lifetime.expires_at));
        }
    }
}
