//! The line to an operator: a sidecar's process and a Valkey on one end, the real server of the line on the other.

use crate::{
    installation::{Installation, SYSTEM},
    line_operator::RunningOperator,
    pod::{DEADLINE, Pod, eventually},
};
use link::{
    contract::{self, Condition, HeartbeatCause, Probe, Role, answer::Outcome, command::Action, report_request::Event},
    server::Session,
};
use std::sync::atomic::Ordering;
use valkey::testing::{BOTH_VERSIONS, ServerVersion, TestServer};

pub struct Pair {
    pub installation: Installation,
    pub operator: RunningOperator,
    pub pod: Pod,
}

impl Pair {
    /// All is in place and nothing runs in the pod yet.
    pub fn new(version: ServerVersion) -> Self {
        let installation = Installation::new();
        let operator = RunningOperator::start(installation.operator(SYSTEM));
        let mut pod = Pod::new(version, &[]);
        pod.line = operator.settings();
        pod.set(&[]);
        installation.provide(&pod);
        Self { installation, operator, pod }
    }

    pub fn connected(version: ServerVersion) -> Self {
        Self::connected_in_term(1, version)
    }

    fn connected_in_term(epoch: u64, version: ServerVersion) -> Self {
        let mut pair = Self::new(version);
        pair.operator.leads(epoch);
        pair.pod.start_sidecar(&[]);
        pair.pod.start_server();
        pair.pod.wait_settled();
        pair.wait_connected();
        pair.operator.wait_beat(&pair.pod, "a ready node", ready);
        pair
    }

    pub fn line(&self) -> serde_json::Value {
        self.pod.status()["line"].clone()
    }

    pub fn wait_connected(&self) {
        self.pod.wait_for("the line is up", |_| self.line()["connected"] == true);
    }

    pub fn wait_problem(&self, part: &str) {
        let says = |line: serde_json::Value| line["problem"].as_str().is_some_and(|text| text.contains(part));
        self.pod.wait_for(&format!("a problem with \"{part}\""), |_| says(self.line()));
    }

    fn session(&self) -> Session {
        self.operator.received.stay_connected.store(true, Ordering::Relaxed);
        self.pod.wait_for("a held call", |_| self.operator.wake());
        self.operator.sessions.recv_timeout(DEADLINE).unwrap()
    }
}

fn ready(beat: &contract::HeartbeatRequest) -> bool {
    beat.node.as_ref().is_some_and(|node| node.condition() == Condition::Ready && !node.node_id.is_empty())
}

#[test]
fn the_first_heartbeat_tells_all_there_is() {
    for version in BOTH_VERSIONS {
        let mut pair = Pair::new(version);
        pair.pod.start_sidecar(&[]);
        pair.pod.wait_for("a first heartbeat", |_| pair.operator.beats() > 0);
        // Another may have followed at once.
        let first = pair.operator.received.beats.lock().unwrap()[0].1.clone();
        assert_eq!(first.cause(), HeartbeatCause::Connected);
        pair.pod.start_server();
        let settled = |beat: &contract::HeartbeatRequest| {
            ready(beat) && beat.revisions.as_ref().is_some_and(|revisions| !revisions.settings.is_empty())
        };
        let beat = pair.operator.wait_beat(&pair.pod, "a heartbeat of a ready node", settled);
        let (node, view) = (beat.node.unwrap(), beat.view.unwrap());
        assert_eq!((node.role(), node.node_id.len(), node.shard_id.len()), (Role::Primary, 40, 40));
        assert!(node.valkey_version.starts_with(version.line()) && !node.replication_id.is_empty());
        assert_eq!((view.known_nodes, view.slots_mine, view.slots_digest.len()), (1, 0, 32));
        let text = std::fs::read_to_string(pair.pod.folder.path().join("settings.json")).unwrap();
        let revisions = beat.revisions.unwrap();
        assert_eq!(revisions.settings, api::node_settings::revision(&text));
        assert_eq!(revisions.trusted_roots, [pair.installation.root().to_string()]);
        assert!(beat.volume.unwrap().size_bytes > 0);
        let line = pair.line();
        assert_eq!((line["connected"].clone(), line["epoch"].clone()), (true.into(), 1.into()));
        assert!(pair.pod.get("/metrics").body.contains("valkey_sidecar_line_connected 1"));
        assert!(pair.operator.refusals().is_empty(), "{:?}", pair.operator.refusals());
    }
}

#[test]
fn a_killed_valkey_is_reported_and_its_return_too() {
    for version in BOTH_VERSIONS {
        let mut pair = Pair::connected(version);
        pair.pod.server().kill().unwrap();
        pair.operator.wait_report(&pair.pod, "the death", |event| matches!(event, Event::ValkeyDied(_)));
        let down = |beat: &contract::HeartbeatRequest| {
            beat.node.as_ref().is_some_and(|node| node.condition() == Condition::Down)
        };
        let dead = pair.operator.wait_beat(&pair.pod, "a heartbeat of a dead node", down);
        assert!(dead.last_position.is_some_and(|last| last.replication_id.len() == 40), "it tells how far it had come");
        let before = pair.operator.beats();
        pair.pod.start_server();
        pair.pod.wait_for("another heartbeat of a ready node", |_| {
            pair.operator.received.beats.lock().unwrap().iter().skip(before).any(|(_, beat)| ready(beat))
        });
    }
}

#[test]
fn an_operator_that_goes_and_comes_back_is_found_again_and_valkey_serves_meanwhile() {
    let mut pair = Pair::connected(ServerVersion::V9_1);
    let address = pair.operator.address;
    drop(pair.operator);
    pair.pod.wait_for("the loss in /status", |pod| pod.status()["line"]["connected"] == false);
    assert_eq!(pair.pod.get("/valkey/liveness").status, 200);
    pair.pod.server().kill().unwrap();
    pair.operator = RunningOperator::at(address, pair.installation.operator(SYSTEM));
    pair.operator.wait_beat(&pair.pod, "a heartbeat to the new operator", |_| true);
    pair.operator.wait_report(&pair.pod, "what happened meanwhile", |event| matches!(event, Event::ValkeyDied(_)));
}

#[test]
fn a_leader_that_was_replaced_is_not_believed_even_after_a_restart_of_the_sidecar() {
    let mut pair = Pair::new(ServerVersion::V9_1);
    pair.operator.leads(8);
    pair.pod.start_sidecar(&[]);
    pair.pod.wait_for("epoch 8", |_| pair.line()["epoch"] == 8);
    pair.pod.stop_sidecar();
    pair.operator.leads(7);
    pair.pod.start_sidecar(&[]);
    pair.wait_problem("epoch 7 is lower than 8");
    assert_eq!(pair.line()["connected"], false);
    pair.operator.leads(9);
    pair.wait_connected();
    assert_eq!(pair.line()["epoch"], 9);
}

#[test]
fn a_command_is_answered_and_a_replayed_one_of_a_former_leader_refused() {
    // In the term of its commands: a heartbeat that is answered with a lower one ends the line.
    let pair = Pair::connected_in_term(5, ServerVersion::V9_1);
    let session = pair.session();
    pair.pod.wait_for("the stream in /status", |_| pair.line()["streaming"] == true);
    let ask = |epoch| {
        let fence = contract::Fence {
            cluster_uid: crate::pod::CLUSTER_UID.into(),
            orchestration_id: "job".into(),
            step_version: 1,
            epoch,
        };
        let asked = session.command(fence, Action::Probe(Probe {}), DEADLINE);
        pair.operator.runtime.block_on(asked).unwrap()
    };
    let Outcome::Done(done) = ask(5) else { panic!("a probe was not answered") };
    assert_eq!(done.node.unwrap().role(), Role::Primary);
    let Outcome::Refused(refused) = ask(4) else { panic!("a stale command was obeyed") };
    assert_eq!((refused.reason(), refused.highest_epoch), (contract::RefusedReason::StaleEpoch, 5));
}

/// Whoever can have a probe made to any address could ask otherwise.
#[test]
fn nobody_who_does_not_know_the_cluster_makes_a_pod_announce_its_stop() {
    let pair = Pair::connected(ServerVersion::V9_1);
    for path in ["/valkey/pre-stop/", "/valkey/pre-stop/00000000-0000-0000-0000-000000000000"] {
        assert_eq!(pair.pod.get(path).status, 403, "{path}");
    }
    assert!(!pair.pod.log().contains("asked to hand over"), "{}", pair.pod.log());
    assert_eq!(pair.pod.get("/valkey/pre-stop").status, 200);
}

#[test]
fn the_pods_end_is_reported_before_valkey_is_asked_to_stop() {
    let pair = Pair::connected(ServerVersion::V8_1);
    pair.pod.get("/valkey/pre-stop");
    let (_, event) = pair.operator.wait_report(&pair.pod, "the end", |event| matches!(event, Event::PodTerminating(_)));
    let Event::PodTerminating(told) = event else { unreachable!() };
    assert_eq!(told.role(), Role::Primary);
}

#[test]
fn a_refused_setting_is_reported_with_the_reason() {
    let pair = Pair::connected(ServerVersion::V9_1);
    pair.pod.set(&[("hz", "frequent")]);
    let (_, event) =
        pair.operator.wait_report(&pair.pod, "the refusal", |event| matches!(event, Event::SettingsRefused(_)));
    let Event::SettingsRefused(told) = event else { unreachable!() };
    assert!(told.detail.contains("hz frequent"), "{told:?}");
}

#[test]
fn a_changed_role_is_reported_and_the_next_heartbeat_names_the_primary() {
    for version in BOTH_VERSIONS {
        let pair = Pair::connected(version);
        let other = TestServer::start(version, &["--cluster-enabled", "yes"]).unwrap();
        let primary = pair.operator.runtime.block_on(async {
            let id = other.connect().await.unwrap().cluster_my_id().await.unwrap();
            pair.pod.connect().await.cluster_meet("127.0.0.1", other.port).await.unwrap();
            eventually("the replica takes its primary", || async {
                pair.pod.connect().await.cluster_replicate(&id).await.is_ok()
            })
            .await;
            id
        });
        let (_, event) =
            pair.operator.wait_report(&pair.pod, "the change", |event| matches!(event, Event::RoleChanged(_)));
        let Event::RoleChanged(told) = event else { unreachable!() };
        assert_eq!((told.from(), told.to()), (Role::Primary, Role::Replica));
        let node = |beat: &contract::HeartbeatRequest| beat.node.clone().unwrap_or_default();
        let replica =
            |beat: &contract::HeartbeatRequest| node(beat).role() == Role::Replica && node(beat).primary_link_up;
        let beat = pair.operator.wait_beat(&pair.pod, "a heartbeat of a replica in sync", replica);
        assert_eq!(node(&beat).primary_node_id, primary.to_string());
    }
}
