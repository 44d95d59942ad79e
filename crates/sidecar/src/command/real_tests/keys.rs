//! Keys of every kind, and how they look afterwards.

use super::cluster::Node;
use load::slot;
use std::time::Duration;
use valkey::{Connection, Reply};

pub const LIBRARY: &str = "#!lua name=shop\nserver.register_function('price', function() return 42 end)";

/// Makes a key of each type in its slot, all but the big one with an end; `{}` stands for the tag of the slot.
const MAKE: [&str; 12] = [
    "SET {}string value",
    "RPUSH {}list a b c",
    "SADD {}set a b 1",
    "SADD {}numbers 1 2 3",
    "HSET {}hash field value other 2",
    "ZADD {}sorted 1 a 2.5 b",
    "XADD {}stream 1-1 field value",
    "XADD {}stream 2-1 field other",
    "XGROUP CREATE {}stream group 0",
    "XREADGROUP GROUP group reader COUNT 1 STREAMS {}stream >",
    "PFADD {}count a b c",
    "SETBIT {}bits 7777 1",
];
const NAMES: [&str; 9] = ["string", "list", "set", "numbers", "hash", "sorted", "stream", "count", "bits"];
const END: &str = "4102444800000";
const END_MS: u64 = 4_102_444_800_000;
pub const FIELDS: i64 = 30_000;
const BIG: &str = "for i = 1, tonumber(ARGV[1]) do server.call('HSET', KEYS[1], 'field' .. i, 'value' .. i) end";

pub fn key(slot: u16, name: &str) -> String {
    format!("{{{}}}{name}", slot::tag(slot))
}

pub async fn patient(node: &Node) -> Connection {
    let mut connection = node.server.connect().await.unwrap();
    connection.renew(Duration::from_secs(120));
    connection
}

pub async fn make_all(node: &Node, slot: u16) {
    let mut connection = patient(node).await;
    for command in MAKE {
        let command = command.replace("{}", &key(slot, ""));
        connection.call(&command.split(' ').collect::<Vec<_>>()).await.unwrap();
    }
    for name in NAMES {
        connection.call(&["PEXPIREAT", &key(slot, name), END]).await.unwrap();
    }
    connection.call(&["EVAL", BIG, "1", &key(slot, "big"), &FIELDS.to_string()]).await.unwrap();
}

/// Values, ends and what waits in the stream's group.
pub async fn picture(node: &Node, slot: u16) -> Vec<Reply> {
    let mut connection = patient(node).await;
    let mut picture = Vec::new();
    for name in NAMES {
        // MIGRATE tells how long a key still lives, in whole milliseconds.
        let end = connection.call(&["PEXPIRETIME", &key(slot, name)]).await.unwrap().number();
        picture.push(Reply::Boolean(end.is_some_and(|end| (END_MS - 1_000..END_MS + 1_000).contains(&end))));
        // Sets of words have no order of their own, and streams note when each consumer was seen.
        let command: &[&str] = match name {
            "set" => &["SCARD"],
            "stream" => &["XRANGE", "-", "+"],
            _ => &["DUMP"],
        };
        let (verb, rest) = command.split_first().unwrap();
        let name = key(slot, name);
        let words = [&[*verb, name.as_str()], rest].concat();
        picture.push(connection.call(&words).await.unwrap());
    }
    picture.push(connection.call(&["XPENDING", &key(slot, "stream"), "group"]).await.unwrap());
    let stream = key(slot, "stream");
    let read = ["XREADGROUP", "GROUP", "group", "reader", "STREAMS", &stream, "0"];
    picture.push(connection.call(&read).await.unwrap());
    picture.push(connection.call(&["HLEN", &key(slot, "big")]).await.unwrap());
    picture.push(connection.call(&["HGET", &key(slot, "big"), "field777"]).await.unwrap());
    picture
}

pub async fn fill(node: &Node, slot: u16, keys: u32) {
    let mut connection = patient(node).await;
    let set = |index: u32| vec!["SET".to_owned(), key(slot, &index.to_string()), format!("value{index}")];
    let replies = connection.pipeline(&(0..keys).map(set).collect::<Vec<_>>()).await.unwrap();
    assert!(replies.iter().all(|reply| *reply == Reply::Simple("OK".into())), "{:?}", replies.first());
}

pub async fn count(node: &Node, slot: u16) -> u64 {
    patient(node).await.cluster_count_keys(&[slot]).await.unwrap()[0]
}

pub async fn value(node: &Node, slot: u16, name: &str) -> String {
    patient(node).await.call(&["GET", &key(slot, name)]).await.unwrap().into_text()
}

pub async fn owns(node: &Node, slot: u16) -> bool {
    patient(node).await.cluster_nodes().await.unwrap().myself().unwrap().owns(slot)
}
