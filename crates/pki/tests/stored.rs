//! What comes back out of a Secret: whole, expired, spoilt in each way somebody could spoil it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::string_slice, reason = "a test")]

use jiff::Timestamp;
use pki::{Authority, Bundle, Issued, Scope, Spoilt, StoredLeaf, SystemRandomness, stored_leaf};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn root() -> Authority {
    Authority::root(&"valkey-system".parse().unwrap(), 24 * HOUR, now(), &SystemRandomness).unwrap()
}

fn intermediate(root: &Authority, cluster: &str) -> Authority {
    root.intermediate(&Scope::cluster("team-a", cluster).unwrap(), 12 * HOUR, now(), &SystemRandomness).unwrap()
}

fn leaf(intermediate: &Authority) -> Issued {
    let id = intermediate.scope().unwrap().identity();
    intermediate.leaf(&id, HOUR, now(), &SystemRandomness).unwrap()
}

fn read(chain: &str, key: &str, trusted: &Bundle, at: Timestamp) -> Result<StoredLeaf, Spoilt> {
    let id = Scope::cluster("team-a", "poc").unwrap().identity();
    stored_leaf(chain.as_bytes(), key.as_bytes(), &id, trusted, at)
}

#[test]
fn a_whole_leaf_names_its_issuer_and_its_root_even_beside_another_root() {
    let (root, other) = (root(), self::root());
    let intermediate = intermediate(&root, "poc");
    let leaf = leaf(&intermediate);
    let trusted = other.bundle().unwrap().merge(root.bundle().unwrap());
    let found = read(&leaf.chain_pem, &leaf.key_pem, &trusted, now()).unwrap();
    assert_eq!((found.issuer, found.root), (intermediate.thumbprint(), root.thumbprint()));
    assert_eq!((found.thumbprint, found.not_after), (leaf.thumbprint, leaf.not_after));
    assert_eq!(intermediate.root_among(&trusted, now(), &SystemRandomness).unwrap(), Some(root.thumbprint()));
    assert_eq!(intermediate.root_among(&other.bundle().unwrap(), now(), &SystemRandomness).unwrap(), None);
}

#[test]
fn an_expired_leaf_is_whole_and_says_when_it_ended() {
    let root = root();
    let leaf = leaf(&intermediate(&root, "poc"));
    let later = now().checked_add(6 * HOUR).unwrap();
    let found = read(&leaf.chain_pem, &leaf.key_pem, &root.bundle().unwrap(), later).unwrap();
    assert_eq!(found.not_after, now().checked_add(HOUR).unwrap());
}

#[test]
fn what_somebody_spoilt_is_told_apart() {
    let root = root();
    let trusted = root.bundle().unwrap();
    let own = leaf(&intermediate(&root, "poc"));
    let strange = leaf(&intermediate(&root, "other"));
    let spoilt = |chain: &str, key: &str, trusted: &Bundle| read(chain, key, trusted, now()).unwrap_err();
    assert!(matches!(spoilt("nonsense", &own.key_pem, &trusted), Spoilt::Text));
    assert!(matches!(spoilt(&own.chain_pem, "nonsense", &trusted), Spoilt::Key));
    assert!(matches!(spoilt(&own.chain_pem, &strange.key_pem, &trusted), Spoilt::KeyMismatch));
    assert!(matches!(spoilt(&strange.chain_pem, &strange.key_pem, &trusted), Spoilt::OtherIdentity(_)));
    let end = own.chain_pem.find("-----END").unwrap() + "-----END CERTIFICATE-----\n".len();
    assert!(matches!(spoilt(&own.chain_pem[..end], &own.key_pem, &trusted), Spoilt::NoIssuer));
    let other_root = self::root().bundle().unwrap();
    assert!(matches!(spoilt(&own.chain_pem, &own.key_pem, &other_root), Spoilt::Certificate(_)));
}
