//! Whatever happened to a cluster's objects, and wherever the operator died, plans lead to the spec and then stand still.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

mod drift;
mod spec;
mod store;

use drift::{Drift, drifts};
use planner::{ChildKey, Manifests, Plan, Shape, child_manifests, differences, plan, validate};
use proptest::prelude::*;
use serde_json::Value;
use store::{Store, now};

/// Looks a cluster may need: take down, build, follow up on pods, settle.
const ROUNDS: usize = 6;

fn planned(store: &Store, spec: &Value) -> Plan {
    let (cluster, observation) = (spec::cluster(spec), store.observe());
    let validated = validate(&cluster, &spec::settings(), &observation);
    plan(validated.as_ref().map_err(Vec::as_slice), &observation, now())
}

/// Looks until nothing is left to do; `budget` steps in all, then the operator dies.
fn converge(store: &mut Store, spec: &Value, budget: usize) -> Plan {
    let mut left = budget;
    for _ in 0..ROUNDS {
        let found = planned(store, spec);
        if found.steps.is_empty() || left == 0 {
            return found;
        }
        for step in found.steps.iter().take(left) {
            store.execute(step);
        }
        left -= found.steps.len().min(left);
        store.run_pods();
    }
    planned(store, spec)
}

fn assert_settled(store: &Store, spec: &Value) {
    let observation = store.observe();
    let cluster = validate(&spec::cluster(spec), &spec::settings(), &observation).unwrap();
    let wanted: Manifests = child_manifests(&cluster, &Shape::of_spec(&cluster));
    for (key, manifest) in &wanted {
        assert_eq!(differences(manifest, &store.live[key]), [], "{key}");
    }
    assert_eq!(store.live.len(), wanted.len());
}

fn labels_of_others(store: &Store) -> Vec<(ChildKey, Value)> {
    let labels = store
        .live
        .iter()
        .filter_map(|(key, live)| Some((key.clone(), live.pointer("/metadata/labels/theirs")?.clone())));
    labels.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_spec_is_reached_and_then_nothing_is_written(spec in spec::specs()) {
        let mut store = Store::default();
        let last = converge(&mut store, &spec, usize::MAX);
        prop_assert_eq!(&last.steps, &[]);
        prop_assert!(last.report.is_settled(), "{:?}", last.report);
        assert_settled(&store, &spec);
    }

    #[test]
    fn one_spec_leads_to_the_next_without_a_trace(first in spec::specs(), second in spec::specs()) {
        let second = spec::following(&second, &first);
        let (mut store, mut fresh) = (Store::default(), Store::default());
        converge(&mut store, &first, usize::MAX);
        prop_assert_eq!(&converge(&mut store, &second, usize::MAX).steps, &[]);
        converge(&mut fresh, &second, usize::MAX);
        let spec = |store: &Store| store.live.iter().map(|(key, live)| (key.clone(), live["spec"].clone())).collect::<Vec<_>>();
        prop_assert_eq!(spec(&store), spec(&fresh));
    }

    /// Nobody has heard the nodes: that the spec asks for fewer pods says nothing about what they hold.
    #[test]
    fn no_spec_ends_a_pod_that_was_not_heard(first in spec::specs(), second in spec::specs()) {
        let second = spec::with_storage_of(&second, &first);
        let mut store = Store::default();
        converge(&mut store, &first, usize::MAX);
        let pods: Vec<String> = store.pods.iter().map(|pod| pod.name.clone()).collect();
        converge(&mut store, &second, usize::MAX);
        prop_assert!(pods.iter().all(|name| store.pods.iter().any(|pod| pod.name == *name)));
    }

    #[test]
    fn drift_is_repaired_and_labels_of_others_stay(spec in spec::specs(), drifts in drifts()) {
        let mut store = Store::default();
        converge(&mut store, &spec, usize::MAX);
        drifts.iter().for_each(|one| drift::drift(&mut store.live, one));
        let before = labels_of_others(&store);
        prop_assert_eq!(&converge(&mut store, &spec, usize::MAX).steps, &[]);
        assert_settled(&store, &spec);
        prop_assert_eq!(before, labels_of_others(&store));
    }

    #[test]
    fn dying_after_any_write_loses_nothing(first in spec::specs(), second in spec::specs(), drifts in drifts(), deaths in prop::collection::vec(0..20_usize, 0..4)) {
        let second = spec::following(&second, &first);
        let mut store = Store::default();
        converge(&mut store, &first, usize::MAX);
        drifts.iter().for_each(|one| drift::drift(&mut store.live, one));
        for budget in deaths {
            converge(&mut store, &second, budget);
        }
        prop_assert_eq!(&converge(&mut store, &second, usize::MAX).steps, &[]);
        assert_settled(&store, &second);
    }

    #[test]
    fn a_paused_cluster_is_never_written_to(spec in spec::specs(), drifts in drifts()) {
        let mut store = Store::default();
        converge(&mut store, &spec, usize::MAX);
        drifts.iter().for_each(|one| drift::drift(&mut store.live, one));
        prop_assert_eq!(&planned(&store, &spec::paused(&spec)).steps, &[]);
    }
}

#[test]
fn every_single_first_write_can_be_the_last_one() {
    let spec = spec::full();
    let writes = {
        let mut store = Store::default();
        converge(&mut store, &spec, usize::MAX);
        store.writes
    };
    assert!(writes > 8);
    for death in 0..=usize::try_from(writes).unwrap() {
        let mut store = Store::default();
        converge(&mut store, &spec, death);
        assert_eq!(converge(&mut store, &spec, usize::MAX).steps, [], "died after {death} writes");
        assert_settled(&store, &spec);
    }
}

#[test]
fn growing_storage_grows_claims_first_and_keeps_the_pods() {
    let mut store = Store::default();
    let spec = spec::with_storage("1Gi");
    converge(&mut store, &spec, usize::MAX);
    let pods = store.pods.clone();
    let grown = spec::with_storage("2Gi");
    let first = planned(&store, &grown).steps;
    assert!(first.iter().all(|step| matches!(step, planner::Step::GrowClaim { .. })), "{first:?}");
    assert_eq!(converge(&mut store, &grown, usize::MAX).steps, []);
    assert!(store.claims.iter().all(|claim| claim.requested == "2Gi"));
    assert_eq!(store.pods, pods);
    assert_settled(&store, &grown);
}

#[test]
fn claims_say_whose_they_are_and_a_template_without_the_mark_stays() {
    let mut store = Store::default();
    converge(&mut store, &spec::with_storage("1Gi"), usize::MAX);
    assert!(store.claims.len() == 6 && store.claims.iter().all(|claim| claim.cluster.as_deref() == Some("poc")));
    let templates =
        |store: &Store| store.live.values().find_map(|live| live.pointer("/spec/volumeClaimTemplates").cloned());
    assert_eq!(templates(&store).unwrap().pointer("/0/metadata/annotations"), None);
}

#[test]
fn the_stateful_set_stays_while_a_claim_refuses_to_grow() {
    let mut store = Store::default();
    converge(&mut store, &spec::with_storage("1Gi"), usize::MAX);
    store.claims.iter_mut().for_each(|claim| claim.bound = false);
    let found = planned(&store, &spec::with_storage("2Gi"));
    assert_eq!(found.steps, []);
    assert!(!found.report.waiting.is_empty());
}

#[test]
fn the_drifts_of_these_tests_do_break_things() {
    let mut store = Store::default();
    converge(&mut store, &spec::full(), usize::MAX);
    let (mut broken, all) = (0, 400);
    for place in 0..all {
        let mut store = store.clone();
        drift::drift(&mut store.live, &Drift::Change(place, place * 7));
        broken += usize::from(!planned(&store, &spec::full()).steps.is_empty());
    }
    assert!(broken > all / 2, "only {broken} of {all} edits were noticed");
}
