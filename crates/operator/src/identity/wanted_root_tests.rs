use super::*;
use crate::identity::contents::Contents;
use pki::Scope;
use std::collections::BTreeMap;

const NAME: &str = names::ROOT_SECRET;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn authority(validity: Duration, made: Timestamp) -> Authority {
    Authority::root(&"valkey-operator-system".parse().unwrap(), validity, made, &SystemRandomness).unwrap()
}

fn good() -> Authority {
    authority(3650 * DAY, now())
}

fn expired() -> Authority {
    authority(DAY, now().checked_sub(2 * DAY).unwrap())
}

fn signing(authority: &Authority, source: Source) -> Root {
    Root { authority: authority.clone(), issued_at: now(), source, came_from: NAME.to_owned() }
}

/// A Secret that carries our labels, and our note of this root.
fn secret(certificate: &str, key: &str, noted: Option<&Authority>) -> SecretSeen {
    let contents = Contents::default().with(CHAIN, certificate).with(KEY, key);
    let note = noted.map(|root| (names::THUMBPRINT.to_owned(), root.thumbprint().to_string()));
    SecretSeen {
        contents,
        annotations: note.into_iter().collect::<BTreeMap<_, _>>(),
        ours: true,
        ..SecretSeen::default()
    }
}

fn holding(authority: &Authority, noted: Option<&Authority>) -> SecretSeen {
    secret(&authority.certificate_pem().unwrap(), &authority.key_pem().unwrap(), noted)
}

fn judged(seen: SecretSeen, signing: Option<&Root>) -> (Wanted, Option<Root>, bool) {
    judge(NAME, Ok(Some(seen)), signing, now())
}

fn refusal(seen: SecretSeen, signing: &Root) -> String {
    match judged(seen, Some(signing)) {
        (Wanted { source: Source::Own, root: Found::Spoilt(why) }, None, false) => why,
        (wanted, ..) => panic!("{wanted:?}"),
    }
}

#[test]
fn the_root_that_the_operator_noted_is_its_own_even_when_it_has_ended() {
    for root in [good(), expired()] {
        let (wanted, found, unnoted) = judged(holding(&root, Some(&root)), Some(&signing(&root, Source::Operator)));
        assert_eq!((wanted.source, unnoted), (Source::Operator, false));
        assert_eq!(found.unwrap().authority.thumbprint(), root.thumbprint());
    }
}

#[test]
fn another_root_in_a_secret_with_our_labels_is_put_to_every_test() {
    let (ours, theirs) = (good(), good());
    let in_force = signing(&ours, Source::Operator);
    let scope = Scope::cluster("team-a", "poc").unwrap();
    let below = theirs.intermediate(&scope, DAY, now(), &SystemRandomness).unwrap();
    let leaf = below.leaf(&scope.identity(), DAY, now(), &SystemRandomness).unwrap();
    let no_authority = secret(&leaf.chain_pem, &leaf.key_pem, Some(&ours));
    assert!(refusal(no_authority, &in_force).contains("no certificate authority"));
    assert!(refusal(holding(&expired(), Some(&ours)), &in_force).contains("expired at"));
    let mixed = secret(&theirs.certificate_pem().unwrap(), &ours.key_pem().unwrap(), Some(&ours));
    assert!(refusal(mixed, &in_force).contains("does not belong"));
}

#[test]
fn a_good_root_of_the_users_in_a_secret_with_our_labels_is_the_users() {
    let (ours, theirs) = (good(), good());
    let before = judged(holding(&theirs, Some(&ours)), Some(&signing(&ours, Source::Operator)));
    let after = judged(holding(&theirs, Some(&ours)), Some(&signing(&theirs, Source::Own)));
    for (wanted, found, unnoted) in [before, after] {
        assert_eq!((wanted.source, found.unwrap().source, unnoted), (Source::Own, Source::Own, false));
    }
}

#[test]
fn a_root_from_before_it_was_noted_stays_the_operators_and_is_to_be_noted() {
    let root = good();
    let in_force = signing(&root, Source::Operator);
    for signing in [Some(&in_force), None] {
        let (wanted, _, unnoted) = judged(holding(&root, None), signing);
        assert_eq!((wanted.source, unnoted), (Source::Operator, true));
    }
    let ended = expired();
    let (wanted, _, unnoted) = judged(holding(&ended, None), Some(&signing(&ended, Source::Operator)));
    assert_eq!((wanted.source, unnoted), (Source::Operator, true), "it is due, and the operator's to replace");
    assert!(refusal(holding(&ended, None), &in_force).contains("expired at"), "nobody knows whose that is");
}

#[test]
fn what_is_no_certificate_or_has_lost_its_key_is_made_good_unless_the_root_is_the_users() {
    let root = good();
    let nonsense = || secret("nonsense", "nonsense", Some(&root));
    let keyless = secret(&root.certificate_pem().unwrap(), "nonsense", Some(&root));
    for seen in [nonsense(), keyless] {
        let (wanted, ..) = judged(seen, Some(&signing(&root, Source::Operator)));
        assert!(matches!(wanted, Wanted { source: Source::Operator, root: Found::Spoilt(_) }), "{wanted:?}");
    }
    assert!(refusal(nonsense(), &signing(&root, Source::Own)).contains("no readable certificate"));
}
