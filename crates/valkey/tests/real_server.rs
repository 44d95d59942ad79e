//! The connection and the typed commands against real servers of both supported lines.
#![allow(clippy::expect_used, reason = "a helper of tests may fail the test")]

use std::{collections::BTreeMap, time::Duration};
use valkey::{
    Address, CallError, Connection, RefusalKind,
    testing::{BOTH_VERSIONS, ServerVersion, TestServer},
};

fn server(version: ServerVersion, parameters: &[&str]) -> TestServer {
    TestServer::start(version, parameters).expect("a real valkey-server")
}

fn parameters(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn admin_commands_answer_over_unix_socket_and_tcp() {
    for version in BOTH_VERSIONS {
        let server = server(version, &["--cluster-enabled", "yes"]);
        for address in [server.unix_address(), server.tcp_address()] {
            let mut connection = Connection::open(&address, Duration::from_secs(5)).await.unwrap();
            assert_eq!(connection.ping().await.unwrap(), "PONG");
            let info = connection.info(&["server"]).await.unwrap();
            assert!(info.text("valkey_version").unwrap().starts_with(version.line()));
            assert_eq!(connection.role().await.unwrap(), topology::Role::Primary);
            assert!(connection.cluster_info().await.unwrap().is_alone());
            let nodes = connection.cluster_nodes().await.unwrap();
            assert_eq!(nodes.myself().unwrap().id, connection.cluster_my_id().await.unwrap());
        }
    }
}

#[tokio::test]
async fn a_refused_value_leaves_all_parameters_of_the_command_as_they_were() {
    for version in BOTH_VERSIONS {
        let server = server(version, &[]);
        let mut connection = server.connect().await.unwrap();
        let refused = connection.config_set(&parameters(&[("hz", "bogus"), ("maxmemory", "50mb")])).await.unwrap_err();
        assert!(refused.refusal().unwrap().message.contains("'hz'"), "{refused}");
        assert_eq!(connection.config_get(&["maxmemory"]).await.unwrap()["maxmemory"], "0");
        connection.config_set(&parameters(&[("hz", "50"), ("maxmemory", "50mb")])).await.unwrap();
        let now = connection.config_get(&["hz", "maxmemory", "nosuch"]).await.unwrap();
        assert_eq!(now, parameters(&[("hz", "50"), ("maxmemory", "52428800")]));
    }
}

#[tokio::test]
async fn a_frozen_server_costs_the_deadline() {
    let server = server(ServerVersion::V9_1, &[]);
    server.freeze().unwrap();
    let mut connection = Connection::open(&server.unix_address(), Duration::from_millis(300)).await.unwrap();
    let error = connection.ping().await.unwrap_err();
    assert!(matches!(error, CallError::AnswerDeadline { .. }), "{error}");
    assert!(!error.nobody_listens());
    server.thaw().unwrap();
    assert_eq!(server.connect().await.unwrap().ping().await.unwrap(), "PONG");
}

#[tokio::test]
async fn a_dead_server_and_a_missing_socket_are_told_from_a_silent_one() {
    let mut server = server(ServerVersion::V8_1, &[]);
    let address = server.unix_address();
    server.kill().unwrap();
    for address in [address, Address::Unix("/nowhere/valkey.sock".into())] {
        let error = Connection::open(&address, Duration::from_secs(1)).await.err().unwrap();
        assert!(error.nobody_listens(), "{error}");
    }
}

#[tokio::test]
async fn a_server_at_its_client_limit_says_so() {
    for version in BOTH_VERSIONS {
        let server = server(version, &[]);
        let mut holder = server.connect().await.unwrap();
        holder.config_set(&parameters(&[("maxclients", "1")])).await.unwrap();
        let error = server.connect().await.unwrap().ping().await.unwrap_err();
        assert_eq!(error.refusal().map(|refusal| refusal.kind), Some(RefusalKind::TooManyClients), "{error}");
    }
}

#[tokio::test]
async fn connections_that_bring_keys_are_closed_and_no_others() {
    for version in BOTH_VERSIONS {
        let server = server(version, &[]);
        let open = async || Connection::open(&server.tcp_address(), Duration::from_secs(5)).await.unwrap();
        let (mut brings, mut begins) = (open().await, open().await);
        let (mut reads, mut own) = (open().await, open().await);
        assert!(brings.call(&["RESTORE-ASKING", "key", "0", "no value"]).await.is_err());
        begins.call(&["SELECT", "0"]).await.unwrap();
        reads.ping().await.unwrap();
        own.end_migrations_from_here().await.unwrap();
        assert!(brings.ping().await.is_err() && begins.ping().await.is_err());
        assert_eq!((reads.ping().await.unwrap(), own.ping().await.unwrap()), ("PONG".into(), "PONG".into()));
    }
}
