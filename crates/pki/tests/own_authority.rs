//! The Secret of a user's own authority: what is missing or does not fit together is named, all of it at once.
#![allow(clippy::unwrap_used, reason = "also in the helpers of tests")]

mod support;

use pki::{Objection, own_authority};
use std::collections::BTreeMap;
use support::*;

type Data = BTreeMap<String, Vec<u8>>;

fn data(world: &World) -> Data {
    let certificate = world.root.certificate_pem().unwrap().into_bytes();
    let key = world.root.key_pem().unwrap().as_bytes().to_vec();
    BTreeMap::from([("tls.crt".to_owned(), certificate), ("tls.key".to_owned(), key)])
}

fn objections(world: &World, data: &Data) -> Vec<Objection> {
    own_authority(data, hours(24), world.now, &RANDOM).err().unwrap_or_default()
}

fn reasons(world: &World, data: &Data) -> Vec<&'static str> {
    objections(world, data).iter().map(Objection::reason).collect()
}

#[test]
fn a_good_authority_is_taken_under_either_name() {
    let world = World::new();
    let mut data = data(&world);
    assert_eq!(objections(&world, &data), []);
    for (old, new) in [("tls.crt", "ca.crt"), ("tls.key", "ca.key")] {
        let value = data.remove(old).unwrap();
        data.insert(new.to_owned(), value);
    }
    assert_eq!(objections(&world, &data), []);
}

#[test]
fn everything_that_is_missing_is_named_at_once() {
    let world = World::new();
    let found = objections(&world, &Data::new());
    assert_eq!(found, [Objection::Missing("tls.crt (or ca.crt)"), Objection::Missing("tls.key (or ca.key)")]);
}

#[test]
fn what_cannot_be_read_is_named_with_its_key() {
    let world = World::new();
    let mut data = data(&world);
    data.insert("tls.crt".to_owned(), b"hello".to_vec());
    data.insert(
        "tls.key".to_owned(),
        b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n".to_vec(),
    );
    let texts: Vec<_> = objections(&world, &data).iter().map(ToString::to_string).collect();
    assert!(texts[0].starts_with("tls.crt holds no readable certificate"), "{texts:?}");
    assert!(texts[1].starts_with("tls.key holds no usable private key") && texts[1].contains("encrypted"), "{texts:?}");
}

#[test]
fn a_key_of_another_certificate_is_told() {
    let world = World::new();
    let mut data = data(&world);
    data.insert("tls.key".to_owned(), world.intermediate.key_pem().unwrap().as_bytes().to_vec());
    assert_eq!(objections(&world, &data), [Objection::KeyMismatch { key: "tls.key", certificate: "tls.crt" }]);
}

#[test]
fn a_leaf_gets_all_its_objections_together() {
    let world = World::new();
    let leaf = world.leaf();
    let mut data = data(&world);
    data.insert("tls.crt".to_owned(), leaf.chain_pem.clone().into_bytes());
    let found = reasons(&world, &data);
    assert_eq!(found, ["NotAnAuthority", "MayNotSign", "TooShortLife", "KeyMismatch"]);
}

#[test]
fn an_intermediate_of_ours_is_no_root() {
    let world = World::new();
    let certificate = world.intermediate.certificate_pem().unwrap().into_bytes();
    let key = world.intermediate.key_pem().unwrap().as_bytes().to_vec();
    let data = BTreeMap::from([("tls.crt".to_owned(), certificate), ("tls.key".to_owned(), key)]);
    assert_eq!(reasons(&world, &data), ["PathTooShort"]);
}

#[test]
fn no_objection_shows_a_part_of_the_key() {
    let world = World::new();
    let mut data = data(&world);
    let key = data["tls.key"].clone();
    data.insert("tls.key".to_owned(), key[..key.len() - 60].to_vec());
    let text = format!("{:?}", objections(&world, &data));
    let line = String::from_utf8(key).unwrap().lines().nth(1).unwrap().to_owned();
    assert!(text.contains("UnreadableKey") && !text.contains(&line), "{text}");
}
