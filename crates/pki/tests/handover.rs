//! The change of a root, played through with parties that switch in any order and go silent at any time.

use pki::{Handover, Party, Step, Thumbprint};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn old() -> Thumbprint {
    Thumbprint::recorded("01d")
}

fn new() -> Thumbprint {
    Thumbprint::recorded("e4")
}

fn party(number: usize) -> Party {
    Party { name: format!("poc-{number}"), trusts: Some(BTreeSet::from([old()])), presents: Some(old()) }
}

fn start(count: usize) -> Handover {
    Handover {
        old: old(),
        new: new(),
        published: BTreeSet::from([old()]),
        signing: old(),
        old_expired: false,
        parties: (0..count).map(party).collect(),
    }
}

/// What the operator does about a step.
fn perform(handover: &mut Handover, step: &Step) {
    match step {
        Step::Publish => drop(handover.published.insert(new())),
        Step::SignWithNew => handover.signing = new(),
        Step::RetireOld => drop(handover.published.remove(&old())),
        Step::AwaitTrust(_) | Step::AwaitUse(_) | Step::Done => {}
    }
}

/// What a party does in its own time: take the published bundle, or the current leaf.
fn catch_up(handover: &mut Handover, number: usize, bundle: bool) {
    let (published, signing) = (handover.published.clone(), handover.signing.clone());
    let Some(party) = handover.parties.get_mut(number) else { return };
    if bundle { party.trusts = Some(published) } else { party.presents = Some(signing) }
}

/// Everybody believes what everybody presents.
fn all_believe(parties: &[Party]) -> bool {
    let presented: Vec<_> = parties.iter().filter_map(|party| party.presents.clone()).collect();
    let believes = |party: &Party| party.trusts.iter().all(|roots| presented.iter().all(|root| roots.contains(root)));
    parties.iter().all(believes)
}

#[test]
fn the_steps_come_in_order_and_name_who_is_waited_for() {
    let mut handover = start(2);
    assert_eq!(handover.next_for_root(), Step::Publish);
    perform(&mut handover, &Step::Publish);
    assert_eq!(handover.next_for_root(), Step::AwaitTrust(vec!["poc-0".into(), "poc-1".into()]));
    catch_up(&mut handover, 0, true);
    assert_eq!(handover.next_for_root(), Step::AwaitTrust(vec!["poc-1".into()]));
    catch_up(&mut handover, 1, true);
    assert_eq!(handover.next_for_root(), Step::SignWithNew);
    perform(&mut handover, &Step::SignWithNew);
    catch_up(&mut handover, 1, false);
    assert_eq!(handover.next_for_root(), Step::AwaitUse(vec!["poc-0".into()]));
    catch_up(&mut handover, 0, false);
    assert_eq!(handover.next_for_root(), Step::RetireOld);
    perform(&mut handover, &Step::RetireOld);
    assert_eq!(handover.next_for_root(), Step::Done);
}

#[test]
fn a_party_that_could_not_be_asked_holds_the_old_root_in_place() {
    let mut handover = start(1);
    handover.published.insert(new());
    handover.parties[0].trusts = None;
    assert_eq!(handover.next_for_root(), Step::AwaitTrust(vec!["poc-0".into()]));
    handover.signing = new();
    handover.parties[0].presents = None;
    assert_eq!(handover.next_for_root(), Step::AwaitUse(vec!["poc-0".into()]));
}

#[test]
fn an_expired_root_is_not_waited_for() {
    let mut handover = start(1);
    handover.old_expired = true;
    handover.published.insert(new());
    assert_eq!(handover.next_for_root(), Step::SignWithNew);
    handover.signing = new();
    assert_eq!(handover.next_for_root(), Step::RetireOld);
}

#[test]
fn a_new_intermediate_needs_no_trust_of_its_own() {
    let mut handover = start(1);
    assert_eq!(handover.next_for_intermediate(), Step::SignWithNew);
    handover.signing = new();
    assert_eq!(handover.next_for_intermediate(), Step::AwaitUse(vec!["poc-0".into()]));
    catch_up(&mut handover, 0, false);
    assert_eq!(handover.next_for_intermediate(), Step::RetireOld);
}

proptest! {
    #[test]
    fn whatever_the_order_everybody_always_believes_everybody_and_it_ends(
        count in 1_usize..6, moves in prop::collection::vec((0_usize..6, any::<bool>(), any::<bool>()), 0..80),
    ) {
        let mut handover = start(count);
        for (number, bundle, operator_acts) in moves {
            catch_up(&mut handover, number, bundle);
            if operator_acts {
                let step = handover.next_for_root();
                perform(&mut handover, &step);
            }
            prop_assert!(all_believe(&handover.parties), "{handover:?}");
        }
        for _ in 0..4 {
            let step = handover.next_for_root();
            perform(&mut handover, &step);
            (0..count).for_each(|number| { catch_up(&mut handover, number, true); catch_up(&mut handover, number, false) });
            prop_assert!(all_believe(&handover.parties), "{handover:?}");
        }
        prop_assert_eq!(handover.next_for_root(), Step::Done);
    }
}
