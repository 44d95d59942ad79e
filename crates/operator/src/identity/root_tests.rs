use super::*;
use crate::identity::contents::Contents;
use crate::identity::in_force::Root;
use crate::identity::nowhere::identities;
use crate::identity::root_reading::stored_signing;
use crate::identity::secrets::SecretSeen;
use api::names::certificate_file::{CHAIN, KEY};
use certificates::{Found, Source, Wanted};
use pki::{Authority, SystemRandomness};

fn authority() -> Authority {
    let domain = "valkey-operator-system".parse().unwrap();
    Authority::root(&domain, INTERMEDIATE_VALIDITY * 10, Timestamp::now(), &SystemRandomness).unwrap()
}

/// Nothing but the root that signs, stored or not, and whom to trust.
fn reading(signing: &Authority, signing_is_stored: bool, trusted: Bundle) -> RootReading {
    let (source, came_from) = (Source::Operator, names::ROOT_SECRET.to_owned());
    RootReading {
        secret: came_from.clone(),
        wanted: Wanted { source, root: Found::Absent },
        wanted_root: None,
        wanted_is_unnoted: false,
        signing: Some(Root { authority: signing.clone(), issued_at: Timestamp::now(), source, came_from }),
        signing_is_stored,
        trusted,
        trusted_is_stored: true,
        own: Found::Absent,
        own_authority: None,
    }
}

#[test]
fn the_root_to_retire_is_told_by_its_whole_thumbprint_also_as_openssl_prints_it() {
    let noted = |text: &str| {
        let metadata = serde_json::json!({ "name": names::ROOT, "annotations": { names::RETIRE_NOW: text } });
        let spec = serde_json::json!({ "secretType": "Secret", "caCertSecretRef": "root", "validForDays": 1 });
        serde_json::from_value::<ValkeyCA>(serde_json::json!({ "metadata": metadata, "spec": spec })).unwrap()
    };
    let thumbprint = authority().thumbprint();
    let hex = thumbprint.as_str();
    let pairs = hex.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).to_uppercase());
    let printed: Vec<_> = pairs.collect();
    assert_eq!(retire_now(&noted(hex)), Some(thumbprint.clone()));
    assert_eq!(retire_now(&noted(&printed.join(":"))), Some(thumbprint.clone()));
    assert_ne!(retire_now(&noted(&hex.chars().take(8).collect::<String>())), Some(thumbprint.clone()));
    assert_eq!(retire_now(&ValkeyCA { metadata: Default::default(), ..noted(hex) }), None);
}

#[tokio::test]
async fn a_stored_root_is_in_force_before_any_step_and_only_if_it_is_trusted() {
    let (identities, root) = (identities(), authority());
    let in_force = || identities.changes().borrow().is_some();
    identities.put_stored_in_force(&reading(&root, true, Bundle::default()));
    assert!(!in_force(), "a leaf with no root to trust would be of no use");
    identities.put_stored_in_force(&reading(&root, false, root.bundle().unwrap()));
    assert!(!in_force(), "it is to be stored first");
    identities.put_stored_in_force(&reading(&root, true, root.bundle().unwrap()));
    assert!(in_force());
}

#[test]
fn a_certificate_that_somebody_put_into_the_signing_secret_does_not_sign() {
    let (ours, theirs) = (authority(), authority());
    let secret = |noted: Option<&Authority>| {
        let (certificate, key) = (ours.certificate_pem().unwrap(), ours.key_pem().unwrap());
        let contents = Contents::default().with(CHAIN, &certificate).with(KEY, &key);
        let note = noted.map(|root| (names::THUMBPRINT.to_owned(), root.thumbprint().to_string()));
        SecretSeen { contents, annotations: note.into_iter().collect(), ours: true, ..SecretSeen::default() }
    };
    assert!(stored_signing(&secret(Some(&ours))).is_some());
    assert!(stored_signing(&secret(None)).is_some(), "written before it was noted");
    assert!(stored_signing(&secret(Some(&theirs))).is_none());
}
