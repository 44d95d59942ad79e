//! The root, with a clock of the test's own: made, lost, refused, and handed over while parties switch in any order.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::string_slice, reason = "a test")]

use api::certificates::{TrustedRoot, ValkeyCAStatus};
use certificates::{
    AuthorityReport, Found, RootPlan, RootStep, RootView, Signing, Source, Stored, Wanted, authority_status, root_plan,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pki::{Lifetime, Party, Thumbprint};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const DAY: i64 = 86_400;
const TEN_YEARS: i64 = 3650 * DAY;
const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn print(text: &str) -> Thumbprint {
    Thumbprint::recorded(text)
}

fn stored(text: &str, start: i64) -> Stored {
    Stored { thumbprint: print(text), lifetime: Lifetime { issued_at: at(start), expires_at: at(start + TEN_YEARS) } }
}

fn wanted(text: &str, source: Source) -> Wanted {
    Wanted { source, root: Found::Whole(stored(text, 0)) }
}

fn signing(text: &str, source: Source, came_from: &str) -> Option<Signing> {
    Some(Signing { root: stored(text, 0), source, came_from: came_from.into() })
}

fn settled() -> RootView {
    RootView {
        secret: "root".into(),
        wanted: wanted("a", Source::Operator),
        signing: signing("a", Source::Operator, "root"),
        trusted: BTreeMap::from([(print("a"), at(TEN_YEARS))]),
        parties: Vec::new(),
        retire_now: None,
    }
}

fn plan(view: &RootView, now: i64) -> RootPlan {
    root_plan(view, YEAR, at(now))
}

fn absent(source: Source) -> Wanted {
    Wanted { source, root: Found::Absent }
}

#[test]
fn once_settled_there_is_nothing_to_do_until_it_is_due() {
    let quiet = plan(&settled(), 0);
    assert_eq!((quiet.step, quiet.next), (None, Some(at(2920 * DAY))));
    assert_eq!(plan(&settled(), 2920 * DAY).step, Some(RootStep::Make));
}

#[test]
fn at_first_it_is_made_trusted_and_signs() {
    let mut view = RootView { wanted: absent(Source::Operator), signing: None, trusted: BTreeMap::new(), ..settled() };
    assert_eq!(plan(&view, 0).step, Some(RootStep::Make));
    view.wanted = wanted("a", Source::Operator);
    assert_eq!(plan(&view, 0).step, Some(RootStep::Trust));
    view.trusted.insert(print("a"), at(TEN_YEARS));
    assert_eq!(plan(&view, 0).step, Some(RootStep::Sign));
    view.signing = signing("a", Source::Operator, "root");
    assert_eq!(plan(&view, 0).step, None);
}

#[test]
fn a_lost_or_spoilt_secret_gets_the_root_in_force_back() {
    let lost = plan(&RootView { wanted: absent(Source::Operator), ..settled() }, 0);
    assert_eq!(lost.step, Some(RootStep::WriteBack));
    assert!(lost.repaired.is_some());
    let spoilt = Wanted { source: Source::Operator, root: Found::Spoilt("no key".into()) };
    let spoilt = plan(&RootView { wanted: spoilt, ..settled() }, 0);
    assert_eq!((spoilt.step, spoilt.repaired.as_deref()), (Some(RootStep::WriteBack), Some("no key")));
}

#[test]
fn with_everything_but_the_trust_lost_a_new_root_is_made_and_the_old_stays_trusted() {
    let mut view = RootView { wanted: absent(Source::Operator), signing: None, ..settled() };
    assert_eq!(plan(&view, 0).step, Some(RootStep::Make));
    view.wanted = wanted("b", Source::Operator);
    assert_eq!(plan(&view, 0).step, Some(RootStep::Trust));
    view.trusted.insert(print("b"), at(TEN_YEARS));
    assert_eq!(plan(&view, 0).step, Some(RootStep::Sign));
    view.signing = signing("b", Source::Operator, "root");
    view.parties = vec![party(0)];
    assert_eq!((plan(&view, 0).step, plan(&view, 0).behind), (None, vec!["poc-0".to_owned()]));
}

#[test]
fn somebody_elses_bad_root_is_refused_and_the_one_before_stays() {
    let bad = Wanted { source: Source::Own, root: Found::Spoilt("it has expired".into()) };
    let plan = plan(&RootView { wanted: bad, secret: "our-root".into(), ..settled() }, 0);
    assert_eq!((plan.step.clone(), plan.refused.as_deref()), (None, Some("it has expired")));
    let in_force = signing("a", Source::Operator, "root");
    let report = AuthorityReport {
        generation: Some(2),
        plan: &plan,
        signing: in_force.as_ref(),
        trusted: Vec::new(),
        retire_now: None,
        failure: None,
    };
    let status = authority_status(&report, &ValkeyCAStatus::default(), at(0));
    let ready = &status.conditions[0];
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "OwnAuthorityRefused"));
    assert!(ready.message.contains("it has expired") && ready.message.contains("stays in use"), "{}", ready.message);
    assert_eq!(status.thumbprint.as_deref(), Some("a"));
}

#[test]
fn somebodys_own_root_that_is_taken_away_is_reported_and_never_replaced() {
    let view = RootView { signing: signing("a", Source::Own, "root"), wanted: absent(Source::Own), ..settled() };
    let plan = plan(&view, 0);
    assert_eq!(plan.step, None);
    assert!(plan.refused.is_some_and(|why| why.contains("root is gone")));
    let due = RootView { wanted: wanted("a", Source::Own), signing: signing("a", Source::Own, "root"), ..settled() };
    assert_eq!(self::plan(&due, 3000 * DAY).step, None);
}

#[test]
fn what_cannot_be_read_changes_nothing() {
    let unknown = Wanted { source: Source::Operator, root: Found::Unreadable("403".into()) };
    let plan = plan(&RootView { wanted: unknown.clone(), ..settled() }, 0);
    assert_eq!((plan.step, plan.unreadable.as_deref()), (None, Some("403")));
    let mut under_way = RootView { wanted: unknown, ..settled() };
    under_way.trusted.insert(print("b"), at(TEN_YEARS));
    assert_eq!(self::plan(&under_way, 0).step, None, "the root on its way in stays trusted");
}

fn party(number: usize) -> Party {
    Party { name: format!("poc-{number}"), trusts: Some(BTreeSet::from([print("a")])), presents: Some(print("a")) }
}

#[test]
fn an_expired_root_does_not_take_another_one_with_it_that_is_still_shown() {
    let mut view = RootView { wanted: wanted("c", Source::Operator), parties: vec![party(0)], ..settled() };
    view.signing = signing("c", Source::Operator, "root");
    view.trusted = [("c", TEN_YEARS), ("a", TEN_YEARS), ("0", DAY)].map(|(name, end)| (print(name), at(end))).into();
    let waiting = plan(&view, 2 * DAY);
    assert_eq!((waiting.step, waiting.behind), (None, vec!["poc-0".to_owned()]));
    view.parties.iter_mut().for_each(|party| party.presents = Some(print("c")));
    assert_eq!(plan(&view, 2 * DAY).step, Some(RootStep::RetireOthers));
}

/// From root a to root b, with a sidecar that never follows.
fn held_in_place() -> RootView {
    RootView { wanted: wanted("b", Source::Own), parties: vec![party(0)], ..settled() }
}

/// Takes steps until there are none left, or somebody is waited for.
fn settle(view: &mut RootView, now: i64) -> RootPlan {
    for _ in 0..8 {
        if let Some(step) = plan(view, now).step {
            perform(view, &step);
        }
    }
    let end = plan(view, now);
    assert!(end.step.is_none(), "it does not settle: {view:?}");
    end
}

fn trusted(view: &RootView) -> Vec<&str> {
    view.trusted.keys().map(Thumbprint::as_str).collect()
}

#[test]
fn no_sidecar_can_hold_a_root_in_place_that_an_administrator_retires() {
    let mut view = held_in_place();
    let years = TEN_YEARS - DAY;
    assert_eq!(settle(&mut view, years).distrustful, ["poc-0"], "it waits as long as the root lasts");
    view.retire_now = Some(print("a"));
    let sign = plan(&view, years);
    assert_eq!((sign.step.clone(), sign.without), (Some(RootStep::Sign), vec!["poc-0".to_owned()]));
    perform(&mut view, &RootStep::Sign);
    let retire = plan(&view, years);
    assert_eq!((retire.step, retire.without), (Some(RootStep::Retire(print("a"))), vec!["poc-0".to_owned()]));
    let end = settle(&mut view, years);
    assert_eq!((trusted(&view), end.distrustful.len() + end.behind.len()), (vec!["b"], 0));
}

#[test]
fn one_that_trusts_the_new_root_and_never_shows_it_holds_nothing_in_place_either() {
    let mut view = held_in_place();
    view.parties[0].trusts = Some(BTreeSet::from([print("a"), print("b")]));
    assert_eq!(settle(&mut view, 0).behind, ["poc-0"]);
    view.retire_now = Some(print("a"));
    settle(&mut view, 0);
    assert_eq!(trusted(&view), ["b"]);
}

#[test]
fn an_override_is_for_its_root_and_never_fires_for_a_later_one() {
    let mut view = RootView { retire_now: Some(print("a")), ..held_in_place() };
    settle(&mut view, 0);
    // The annotation is still there when the root changes again.
    let next = Wanted { source: Source::Own, root: Found::Whole(stored("c", 0)) };
    view = RootView { wanted: next, ..view };
    for now in [0, DAY, TEN_YEARS - DAY] {
        let waiting = settle(&mut view, now);
        assert_eq!((waiting.distrustful, waiting.kept), (vec!["poc-0".to_owned()], Some(print("b"))));
        assert!(waiting.another_named && trusted(&view) == ["b", "c"]);
    }
}

#[test]
fn only_the_root_that_is_named_goes_and_others_are_waited_for() {
    let mut view = RootView { wanted: wanted("c", Source::Own), parties: vec![party(0)], ..settled() };
    view.signing = signing("c", Source::Own, "root");
    view.trusted = ["0", "a", "c"].map(|name| (print(name), at(TEN_YEARS))).into();
    view.retire_now = Some(print("0"));
    assert_eq!(plan(&view, 0).step, Some(RootStep::Retire(print("0"))));
    assert_eq!((settle(&mut view, 0).behind, trusted(&view)), (vec!["poc-0".to_owned()], vec!["a", "c"]));
}

#[test]
fn neither_the_only_root_nor_the_wanted_one_can_be_retired() {
    let mut view = RootView { retire_now: Some(print("a")), ..settled() };
    assert_eq!((settle(&mut view, 0).step, trusted(&view)), (None, vec!["a"]));
    let mut view = RootView { retire_now: Some(print("b")), ..held_in_place() };
    assert_eq!((settle(&mut view, 0).distrustful, trusted(&view)), (vec!["poc-0".to_owned()], vec!["a", "b"]));
}

#[test]
fn who_is_waited_for_and_how_to_go_on_without_them_is_in_the_status() {
    let mut view = held_in_place();
    let said = |view: &RootView, plan: &RootPlan| {
        let signing = view.signing.as_ref();
        let (trusted, retire_now, failure) = (Vec::new(), None, None);
        let report = AuthorityReport { generation: Some(1), plan, signing, trusted, retire_now, failure };
        let status = authority_status(&report, &ValkeyCAStatus::default(), at(0));
        let rotating =
            status.conditions.iter().find(|condition| condition.type_ == "Rotating").unwrap().message.clone();
        [rotating, status.plan.unwrap()]
    };
    let trust = settle(&mut view, 0);
    let texts = said(&view, &trust);
    assert!(texts.iter().all(|text| text.contains("poc-0") && text.ends_with("valkey.io/retire-now=a")), "{texts:?}");
    view.parties[0].trusts = Some(BTreeSet::from([print("a"), print("b")]));
    view.retire_now = Some(print("b"));
    let usage = settle(&mut view, 0);
    for text in said(&view, &usage) {
        assert!(text.contains("poc-0") && text.contains("valkey.io/retire-now=a, which names another"), "{text}");
    }
}

#[test]
fn the_wish_that_a_root_goes_is_answered_in_the_status() {
    let (plan, in_force) = (plan(&settled(), 0), signing("b", Source::Operator, "root"));
    let trusted = ["a", "b"].map(|name| TrustedRoot {
        thumbprint: name.to_owned(),
        expires_at: Time(at(TEN_YEARS)),
        certificate: String::new(),
    });
    let answer = |named: Option<&str>| {
        let report = AuthorityReport {
            generation: Some(1),
            plan: &plan,
            signing: in_force.as_ref(),
            trusted: trusted.to_vec(),
            retire_now: named.map(print),
            failure: None,
        };
        let answer = authority_status(&report, &ValkeyCAStatus::default(), at(0)).retire_now;
        answer.map(|answer| (answer.thumbprint, answer.outcome))
    };
    let told = |thumbprint: &str, outcome: &str| Some((thumbprint.to_owned(), outcome.to_owned()));
    assert_eq!(answer(None), None);
    assert_eq!(answer(Some("a")), told("a", "Trusted"));
    assert_eq!(answer(Some("b")), told("b", "InForce"));
    assert_eq!(answer(Some("c")), told("c", "NotTrusted"));
    let long = "d".repeat(1000);
    assert_eq!(answer(Some(&long)), told(&format!("{}…", "d".repeat(127)), "NotTrusted"));
}

fn perform(view: &mut RootView, step: &RootStep) {
    match (step, &view.wanted.root, &view.signing) {
        (RootStep::Trust, Found::Whole(root), _) => {
            view.trusted.insert(root.thumbprint.clone(), root.lifetime.expires_at);
        }
        (RootStep::Sign, Found::Whole(root), _) => {
            view.signing =
                Some(Signing { root: root.clone(), source: view.wanted.source, came_from: view.secret.clone() });
        }
        (RootStep::RetireOthers, _, Some(signing)) => {
            let keep = signing.root.thumbprint.clone();
            view.trusted.retain(|root, _| *root == keep);
        }
        (RootStep::Retire(gone), ..) => drop(view.trusted.remove(gone)),
        _ => {}
    }
}

fn all_believe(view: &RootView) -> bool {
    let shown: Vec<_> = view.parties.iter().filter_map(|party| party.presents.clone()).collect();
    view.parties.iter().flat_map(|party| &party.trusts).all(|roots| shown.iter().all(|root| roots.contains(root)))
}

proptest! {
    /// Whatever is named, and whenever: the root in force and the wanted one, once published, stay trusted.
    #[test]
    fn an_override_never_takes_away_the_root_in_force_or_the_one_that_is_wanted(
        moves in prop::collection::vec((0_usize..5, 0_u8..4), 0..120),
    ) {
        let mut view = RootView { parties: vec![party(0)], ..settled() };
        let names = ["a", "b", "c", "d", "e"];
        for (number, action) in moves {
            match action {
                0 => view.wanted = wanted(names[number], Source::Own),
                1 => view.retire_now = Some(print(names[number])),
                _ => if let Some(step) = plan(&view, 0).step {
                    let target = view.wanted.root.whole().unwrap().thumbprint.clone();
                    let published = view.trusted.contains_key(&target);
                    perform(&mut view, &step);
                    prop_assert!(view.trusted.contains_key(&view.signing.clone().unwrap().root.thumbprint), "{view:?}");
                    prop_assert!(!published || view.trusted.contains_key(&target), "{view:?}");
                },
            }
        }
    }

    /// The user changes the root as often as he likes, parties switch when they like: nobody ever stops believing anybody, and
    /// when the changes end so does the hand-over, with one root left.
    #[test]
    fn however_the_root_changes_everybody_always_believes_everybody(
        count in 1_usize..5, moves in prop::collection::vec((0_usize..5, 0_u8..8), 0..120),
    ) {
        let mut view = RootView { parties: (0..count).map(party).collect(), ..settled() };
        let names = ["a", "b", "c", "d"];
        for (number, action) in moves {
            let (trusted, signs) = (view.trusted.keys().cloned().collect(), view.signing.clone().unwrap());
            match (action, view.parties.get_mut(number)) {
                (0, _) => view.wanted = wanted(names[number % 4], Source::Own),
                (1 | 2, Some(party)) => party.trusts = Some(trusted),
                // A sidecar's leaf and the roots it trusts come in one Secret.
                (3 | 4, Some(party)) => { party.trusts = Some(trusted); party.presents = Some(signs.root.thumbprint) }
                _ => if let Some(step) = plan(&view, 0).step { perform(&mut view, &step) },
            }
            prop_assert!(all_believe(&view), "{view:?}");
        }
        for _ in 0..8 {
            while let Some(step) = plan(&view, 0).step { perform(&mut view, &step) }
            let (trusted, signs): (BTreeSet<_>, _) = (view.trusted.keys().cloned().collect(), view.signing.clone().unwrap());
            for party in &mut view.parties { party.trusts = Some(trusted.clone()); party.presents = Some(signs.root.thumbprint.clone()) }
            prop_assert!(all_believe(&view), "{view:?}");
        }
        prop_assert_eq!(view.trusted.len(), 1);
        prop_assert_eq!(&view.signing.clone().unwrap().root.thumbprint, &view.wanted.root.whole().unwrap().thumbprint);
        let left = plan(&view, 0);
        prop_assert!(left.step.is_none() && left.distrustful.is_empty() && left.behind.is_empty());
    }
}
