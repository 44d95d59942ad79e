//! How many pods there shall be now: never fewer than hold something, whatever the spec says.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

use api::cluster::ValkeyCluster;
use api::conditions::Reason;
use k8s_openapi::jiff::Timestamp;
use manifests::OperatorSettings;
use planner::nodes::{
    Action, NodeFacts, NodeObservation, NodeState, PodCommand, PodObservation, Shard, ShardNode, Target, Valkey,
};
use planner::safety::{check_write, only_safe};
use planner::{
    Apply, ChildKey, ChildKind, ClaimFacts, Identity, Observation, Observed, Plan, PodFacts, Shape, Step, Why,
    child_manifests, plan, validate,
};
use serde_json::{Value, json};
use std::time::Duration;
use topology::{NodeId, PodName, PodUid, Role, ShardId, SlotSet, even};

const NAME: &str = "poc";

fn cluster(masters: usize, replicas: usize) -> ValkeyCluster {
    let managers = json!([{ "manager": "user", "fieldsV1": { "f:spec": { "f:masterCount": {} } } }]);
    let metadata = json!({
        "name": NAME, "namespace": "test", "uid": "cluster-uid", "generation": 1, "managedFields": managers,
    });
    let spec = json!({ "masterCount": masters, "replicasPerMaster": replicas });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

fn settings() -> OperatorSettings {
    OperatorSettings { sidecar_image: "sidecar:1".to_owned(), line: None }
}

fn planned(masters: usize, replicas: usize, observation: &Observation) -> Plan {
    let validated = validate(&cluster(masters, replicas), &settings(), observation).unwrap();
    plan(Ok(&validated), observation, Timestamp::from_second(1_000).unwrap())
}

fn pods(plan: &Plan) -> u32 {
    plan.shape.as_ref().unwrap().pods
}

/// What the StatefulSet would be told, if it is told anything.
fn applied_size(plan: &Plan) -> Option<u64> {
    plan.steps.iter().find_map(|step| match step {
        Step::Apply(apply) if apply.key.kind == ChildKind::StatefulSet => apply.manifest["spec"]["replicas"].as_u64(),
        _ => None,
    })
}

fn name(ordinal: usize) -> String {
    format!("{NAME}-{ordinal}")
}

fn id(ordinal: usize) -> NodeId {
    NodeId::new(format!("{ordinal:040}"))
}

fn facts(ordinal: usize, shards: usize, slots: &[SlotSet]) -> NodeFacts {
    let mut facts = NodeFacts { keys: 100, ..NodeFacts::fresh(id(ordinal)) };
    facts.summary.known_nodes = 12;
    if ordinal < shards {
        facts.summary.slots_mine = slots[ordinal].count();
    } else {
        facts.role = Role::Replica;
        facts.primary = Some(id(ordinal % shards));
        facts.primary_link_up = true;
    }
    facts
}

fn heard(ordinal: usize, facts: NodeFacts) -> PodObservation {
    let seen = PodObservation::unheard(PodName::new(name(ordinal)), PodUid::new(format!("uid-{ordinal}")));
    PodObservation { connected: true, valkey: Valkey::Answers(facts), ..seen }
}

fn running(ordinal: usize) -> PodFacts {
    let (name, uid, ip) = (name(ordinal), format!("uid-{ordinal}"), Some(format!("10.0.0.{ordinal}")));
    PodFacts { name, uid, ip, running: true, ready: true, ..PodFacts::default() }
}

/// As the operator made it in this size.
fn stateful_set(size: usize) -> (ChildKey, Observed) {
    let validated = validate(&cluster(3, 1), &settings(), &Observation::default()).unwrap();
    let shape = Shape { pods: u32::try_from(size).unwrap(), ..Shape::of_spec(&validated) };
    let key = ChildKey::new(ChildKind::StatefulSet, NAME);
    let mut live = child_manifests(&validated, &shape).remove(&key).unwrap();
    live["metadata"]["uid"] = json!("set");
    (key, Observed::Object(live))
}

fn node(ordinal: usize, role: Role) -> ShardNode {
    ShardNode { pod: PodName::new(name(ordinal)), pod_uid: None, node_id: id(ordinal), role, state: NodeState::Online }
}

/// A cluster that is formed: primaries first, then their replicas.
fn formed(shards: usize, replicas: usize) -> Observation {
    let slots = even(&SlotSet::all(), shards);
    let size = shards * (1 + replicas);
    let shard = |index: usize| Shard {
        id: ShardId::new(format!("shard-{index}")),
        slots: slots[index].clone(),
        replication_id: None,
        nodes: (0..=replicas)
            .map(|copy| node(index + copy * shards, if copy == 0 { Role::Primary } else { Role::Replica }))
            .collect(),
    };
    let nodes = NodeObservation {
        pods: (0..size).map(|ordinal| heard(ordinal, facts(ordinal, shards, &slots))).collect(),
        recorded: (0..shards).map(shard).collect(),
        ..NodeObservation::default()
    };
    let identity = Identity {
        name: NAME.into(),
        namespace: "test".into(),
        uid: "cluster-uid".into(),
        generation: Some(1),
        deleting: false,
    };
    Observation {
        cluster: identity,
        children: [stateful_set(size)].into(),
        pods: (0..size).map(running).collect(),
        nodes: Some(nodes),
        ..Observation::default()
    }
}

fn with_newcomers(mut observation: Observation, ordinals: std::ops::Range<usize>) -> Observation {
    for ordinal in ordinals {
        observation.pods.push(running(ordinal));
        let new = heard(ordinal, NodeFacts::fresh(id(ordinal)));
        observation.nodes.as_mut().unwrap().pods.push(new);
    }
    observation
}

#[test]
fn a_lowered_number_of_shards_ends_no_pod_before_its_node_has_left() {
    let plan = planned(3, 1, &formed(6, 1));
    assert_eq!((pods(&plan), applied_size(&plan)), (12, None));
    assert_eq!(plan.report.troubles, []);
}

/// Taken out of the manifest, or never in it: the API server writes 3 there, and nobody asks for that.
#[test]
fn a_number_of_shards_that_nobody_set_is_the_one_there_is() {
    let nobodys = |masters, observation: &Observation| {
        let mut cluster = cluster(masters, 1);
        cluster.metadata.managed_fields = None;
        let validated = validate(&cluster, &settings(), observation).unwrap();
        let plan = plan(Ok(&validated), observation, Timestamp::from_second(1_000).unwrap());
        (validated.master_count, pods(&plan), plan.report.troubles)
    };
    assert_eq!(nobodys(3, &formed(6, 1)), (6, 12, Vec::new()));
    assert_eq!(nobodys(3, &formed(3, 1)), (3, 6, Vec::new()));
    let new = Observation { nodes: None, pods: Vec::new(), children: [].into(), ..formed(3, 1) };
    assert_eq!(nobodys(3, &new).1, 6, "the default makes a new cluster");
}

#[test]
fn the_status_counts_the_shards_there_are() {
    let masters = |observation: &Observation| {
        let plan = planned(5, 1, observation);
        planner::status(&plan.report, &observation.cluster, None, Timestamp::UNIX_EPOCH).master_count
    };
    assert_eq!(masters(&formed(3, 1)), 3, "five are asked for");
    let new =
        Observation { nodes: Some(NodeObservation::default()), pods: Vec::new(), children: [].into(), ..formed(3, 1) };
    assert_eq!(masters(&new), 0);
}

#[test]
fn a_lowered_number_of_replicas_ends_no_pod_before_its_node_has_left() {
    let plan = planned(3, 0, &formed(3, 2));
    assert_eq!((pods(&plan), applied_size(&plan)), (9, None));
    assert_eq!(plan.report.troubles, []);
}

#[test]
fn more_replicas_are_made_at_once() {
    assert_eq!(pods(&planned(3, 2, &formed(3, 1))), 9);
}

#[test]
fn a_stateful_set_that_was_scaled_to_nothing_comes_back_whole() {
    let mut observation = formed(6, 1);
    observation.children = [stateful_set(0)].into();
    observation.pods.clear();
    observation.nodes.as_mut().unwrap().pods.clear();
    assert_eq!(
        applied_size(&planned(3, 1, &observation)),
        Some(12),
        "what is on record is brought back, not what the spec says"
    );
}

#[test]
fn pods_beyond_the_spec_that_are_new_and_heard_go_again() {
    let mut observation = with_newcomers(formed(3, 1), 6..8);
    observation.children = [stateful_set(8)].into();
    assert_eq!(applied_size(&planned(3, 1, &observation)), Some(6));
    observation.nodes.as_mut().unwrap().pods.pop();
    assert_eq!(applied_size(&planned(3, 1, &observation)), None, "the last one is not heard");
}

#[test]
fn pods_that_never_started_hold_nothing() {
    let mut observation = formed(3, 1);
    observation.children = [stateful_set(8)].into();
    let waiting = |ordinal| PodFacts { name: name(ordinal), uid: format!("uid-{ordinal}"), ..PodFacts::default() };
    observation.pods.extend((6..8).map(waiting));
    assert_eq!(applied_size(&planned(3, 1, &observation)), Some(6));
}

#[test]
fn a_replica_too_many_for_a_moment_asks_for_no_more_pods() {
    let mut observation = formed(3, 1);
    let moved = observation.nodes.as_mut().unwrap().recorded[1].nodes.pop().unwrap();
    observation.nodes.as_mut().unwrap().recorded[0].nodes.push(moved);
    assert_eq!(pods(&planned(3, 1, &observation)), 6);
}

/// Its nodes came back empty and the others have forgotten the ones before: the slots are without an owner, and the shard is missed.
#[test]
fn a_shard_that_lost_its_only_node_stays_on_record_and_its_pod_stays() {
    let mut observation = formed(3, 0);
    let nodes = observation.nodes.as_mut().unwrap();
    for pod in &mut nodes.pods {
        let ordinal = pod.name.ordinal().unwrap();
        pod.valkey = Valkey::Answers(NodeFacts::fresh(NodeId::new(format!("f{ordinal:039}"))));
    }
    nodes.pods.pop();
    nodes.recorded[0].nodes[0].state = NodeState::Lost;
    let plan = planned(3, 0, &observation);
    assert_eq!((pods(&plan), applied_size(&plan)), (3, None));
    assert_eq!(plan.report.nodes.as_ref().unwrap().shards.len(), 3);
}

fn claim(ordinal: usize) -> ClaimFacts {
    ClaimFacts { name: format!("data-{}", name(ordinal)), uid: format!("claim-{ordinal}"), ..ClaimFacts::default() }
}

/// Formed and not recorded yet, then all pods gone for a moment: only the volumes know how many shards there are.
#[test]
fn volumes_nobody_read_keep_their_pods_before_there_is_a_record() {
    let mut observation = formed(6, 0);
    observation.nodes.as_mut().unwrap().recorded.clear();
    observation.nodes.as_mut().unwrap().pods.clear();
    observation.pods.clear();
    observation.claims = (0..6).map(claim).collect();
    let plan = planned(3, 0, &observation);
    assert_eq!((pods(&plan), applied_size(&plan)), (6, None));
    assert!(rule(3, &observation).contains("what volume claim data-poc-3 holds is not known"));
}

/// Three new nodes of a StatefulSet of that size, over six volumes.
fn three_new_nodes(size: usize) -> Observation {
    let empty = Observation { pods: Vec::new(), nodes: Some(NodeObservation::default()), ..formed(3, 0) };
    let observation = with_newcomers(empty, 0..3);
    Observation { children: [stateful_set(size)].into(), claims: (0..6).map(claim).collect(), ..observation }
}

#[test]
fn slots_are_given_away_once_every_volume_that_gets_a_pod_was_read() {
    let gives = |plan: &Plan| {
        let mut commands = plan.steps.iter().filter_map(Step::command);
        commands.any(|command| matches!(command.action, Action::AddSlots(_) | Action::SetConfigEpoch(_)))
    };
    let plan = planned(3, 0, &three_new_nodes(6));
    assert!(!gives(&plan) && plan.report.troubles.iter().all(|trouble| trouble.reason != Reason::UnsafePlan));
    assert!(
        plan.report.waiting.iter().any(|text| text.contains("volume claim data-poc-3")),
        "{:?}",
        plan.report.waiting
    );
    assert!(gives(&planned(3, 0, &three_new_nodes(3))), "those of pods that left for good are waited for in vain");
}

#[test]
fn a_plan_that_gives_slots_away_before_a_volume_was_read_is_dropped() {
    let violations = |size| {
        let observation = three_new_nodes(size);
        let action = Action::AddSlots("0-9".parse().unwrap());
        let give = PodCommand { pod: name(0).as_str().into(), pod_uid: "uid-0".into(), action };
        let target = Target {
            cluster: NAME.to_owned(),
            masters: 3,
            replicas_per_master: 0,
            persistent: true,
            node_timeout: Duration::from_secs(5),
            min_replicas_to_write: 0,
        };
        let now = Timestamp::from_second(1_000).unwrap();
        only_safe(vec![Step::Command(give)], Some(&target), &observation, now).1
    };
    assert!(violations(6)[0].rule.contains("not every volume was read"));
    assert_eq!(violations(3), []);
}

#[test]
fn volumes_of_pods_that_left_make_no_new_pods() {
    let mut observation = formed(3, 0);
    observation.nodes.as_mut().unwrap().recorded.clear();
    observation.claims = (0..6).map(claim).collect();
    assert_eq!(pods(&planned(3, 0, &observation)), 3);
    observation.children = [stateful_set(6)].into();
    let observation = with_newcomers(observation, 3..6);
    assert_eq!(applied_size(&planned(3, 0, &observation)), Some(3), "their nodes were heard and are new");
}

#[test]
fn a_record_that_misses_slots_tells_no_number_of_shards() {
    let mut observation = formed(3, 0);
    observation.nodes.as_mut().unwrap().recorded.pop();
    observation.nodes.as_mut().unwrap().pods.pop();
    observation.pods.pop();
    assert_eq!(pods(&planned(3, 0, &observation)), 3);
}

fn shrink(size: usize) -> Step {
    let owner = json!([{ "uid": "cluster-uid" }]);
    let metadata = json!({ "name": NAME, "namespace": "test", "ownerReferences": owner });
    let manifest: Value = json!({ "metadata": metadata, "spec": { "replicas": size } });
    let key = ChildKey::new(ChildKind::StatefulSet, NAME);
    Step::Apply(Apply { key, manifest, why: Why::Changed, uid: Some("set".into()), evict: Vec::new() })
}

fn rule(size: usize, observation: &Observation) -> String {
    check_write(&shrink(size), observation, Timestamp::UNIX_EPOCH).err().unwrap_or_default()
}

#[test]
fn the_checker_refuses_a_smaller_stateful_set_for_each_reason_alone() {
    assert_eq!(rule(12, &formed(6, 1)), "");
    assert!(rule(11, &formed(6, 1)).contains("poc-11 is on record"));
    let mut unrecorded = formed(6, 1);
    unrecorded.nodes.as_mut().unwrap().recorded.clear();
    assert_eq!(rule(11, &unrecorded), "", "a replica whose primary answers is no last copy");
    assert!(rule(5, &unrecorded).contains("poc-5 owns slots"));
    let mut primary_gone = unrecorded.clone();
    primary_gone.nodes.as_mut().unwrap().pods.remove(5);
    assert!(rule(11, &primary_gone).contains("last copy"));
    let mut silent = unrecorded.clone();
    silent.nodes.as_mut().unwrap().pods.pop();
    assert!(rule(11, &silent).contains("was not heard"));
    assert!(rule(11, &Observation { nodes: None, ..unrecorded }).contains("was not heard"));
}

#[test]
fn the_checker_lets_nobody_open_the_budget_or_delete_what_holds_pods() {
    let key = |kind| ChildKey::new(kind, NAME);
    let refused = |step: Step| check_write(&step, &formed(3, 1), Timestamp::UNIX_EPOCH).is_err();
    for kind in [ChildKind::StatefulSet, ChildKind::PodDisruptionBudget] {
        assert!(refused(Step::Delete { key: key(kind), uid: "set".into() }));
    }
    let metadata = json!({ "name": NAME, "namespace": "test", "ownerReferences": [{ "uid": "cluster-uid" }] });
    let budget = |least: Value| {
        let manifest = json!({ "metadata": metadata, "spec": { "minAvailable": least } });
        Step::Apply(Apply {
            key: key(ChildKind::PodDisruptionBudget),
            manifest,
            why: Why::Changed,
            uid: None,
            evict: Vec::new(),
        })
    };
    assert!(refused(budget(json!(5))) && !refused(budget(json!("100%"))));
}

#[test]
fn the_checker_lets_nothing_be_written_over_but_the_object_that_was_seen() {
    let Step::Apply(apply) = shrink(6) else { unreachable!() };
    for uid in [None, Some("another".to_owned())] {
        let step = Step::Apply(Apply { uid, ..apply.clone() });
        let verdict = check_write(&step, &formed(3, 1), Timestamp::UNIX_EPOCH);
        assert!(verdict.unwrap_err().contains("another object is there"));
    }
}

#[test]
fn the_checker_lets_nothing_be_deleted_or_nudged_but_what_was_seen_and_is_ours() {
    let service = ChildKey::new(ChildKind::Service, NAME);
    let live = |owner: &str| json!({ "metadata": { "uid": "u", "ownerReferences": [{ "uid": owner }] } });
    let rule = |owner: &str, step: &Step| {
        let mut observation = formed(3, 1);
        observation.children.insert(service.clone(), Observed::Object(live(owner)));
        check_write(step, &observation, Timestamp::UNIX_EPOCH).err().unwrap_or_default()
    };
    let delete = |uid: &str| Step::Delete { key: service.clone(), uid: uid.to_owned() };
    assert_eq!(rule("cluster-uid", &delete("u")), "");
    assert!(rule("cluster-uid", &delete("another")).contains("another object is there"));
    assert!(rule("somebody", &delete("u")).contains("another cluster"));
    let set = |uid: &str| (ChildKey::new(ChildKind::StatefulSet, NAME), uid.to_owned());
    for (uid, expected) in [("set", ""), ("another", "another object is there")] {
        let (key, uid) = set(uid);
        assert_eq!(rule("", &Step::Release { key: key.clone(), uid: uid.clone() }), expected);
        assert_eq!(rule("", &Step::Nudge { key, uid, at: Timestamp::UNIX_EPOCH }), expected);
    }
}

#[test]
fn the_checker_lets_nothing_be_written_for_another_cluster() {
    let mut other = formed(3, 1);
    other.cluster.uid = "another".into();
    assert!(check_write(&shrink(6), &other, Timestamp::UNIX_EPOCH).unwrap_err().contains("another cluster"));
}

/// The settings that the sidecars would be told, of a cluster whose settings so far are those for one replica.
fn min_replicas_to_write(replicas_there: usize, asked: usize) -> (String, Vec<String>) {
    let mut observation = formed(3, replicas_there);
    let before = validate(&cluster(3, 1), &settings(), &Observation::default()).unwrap();
    let key = ChildKey::new(ChildKind::ConfigMap, api::names::config_map(NAME));
    let mut live = child_manifests(&before, &Shape::of_spec(&before)).remove(&key).unwrap();
    live["metadata"]["uid"] = json!("settings");
    observation.children.insert(key.clone(), Observed::Object(live));
    let plan = planned(3, asked, &observation);
    let applied = plan.steps.iter().find_map(|step| match step {
        Step::Apply(apply) if apply.key == key => apply.manifest["data"].as_object(),
        _ => None,
    });
    let text = applied.and_then(|data| data.values().next()?.as_str()).unwrap();
    let told: Value = serde_json::from_str(text).unwrap();
    (told["parameters"]["min-replicas-to-write"].as_str().unwrap().to_owned(), plan.report.waiting)
}

#[test]
fn a_higher_number_of_replicas_that_writes_ask_for_waits_until_they_are_there() {
    let (number, waiting) = min_replicas_to_write(0, 2);
    assert_eq!(number, "0");
    assert!(waiting.iter().any(|text| text.contains("minReplicasToWrite stays 0")), "{waiting:?}");
    let (number, waiting) = min_replicas_to_write(2, 2);
    assert_eq!(number, "1");
    assert!(!waiting.iter().any(|text| text.contains("minReplicasToWrite")), "{waiting:?}");
}

/// Its sidecar is gone before its containers are.
fn with_one_ending(size: usize, ordinal: usize) -> Observation {
    let mut observation = with_newcomers(formed(3, 1), ordinal..ordinal + 1);
    observation.children = [stateful_set(size)].into();
    observation.pods[ordinal].terminating = true;
    observation.nodes.as_mut().unwrap().pods[ordinal].connected = false;
    observation
}

#[test]
fn a_pod_that_was_let_go_is_not_made_again_and_one_that_was_deleted_is() {
    let let_go = with_one_ending(6, 6);
    assert_eq!((pods(&planned(3, 1, &let_go)), applied_size(&planned(3, 1, &let_go))), (6, None));
    let deleted = with_one_ending(7, 6);
    assert_eq!(pods(&planned(3, 1, &deleted)), 7, "it may have slots that are not on record yet");
    assert!(rule(6, &deleted).contains("was not heard"), "{}", rule(6, &deleted));
}

/// The spec asked for less a moment ago and asks for more again; the write from before may come through yet.
#[test]
fn a_pod_that_a_write_under_way_leaves_out_is_given_nothing() {
    let given = |size_under_way: Option<u32>| {
        let observation = Observation { size_under_way, ..three_new_nodes(3) };
        let plan = planned(3, 0, &observation);
        let mut commands = plan.steps.iter().filter_map(Step::command);
        commands.any(|command| command.pod.as_str() == name(2) && matches!(command.action, Action::AddSlots(_)))
    };
    assert!(given(None) && given(Some(3)) && given(Some(6)) && !given(Some(2)));
    let mut observation = Observation { size_under_way: Some(3), ..with_newcomers(formed(3, 0), 3..4) };
    observation.children = [stateful_set(6)].into();
    let broken = |to: usize| {
        let give = Action::MigrateSlots("0-9".parse().unwrap(), id(to), 0);
        let command = PodCommand { pod: name(0).as_str().into(), pod_uid: "uid-0".into(), action: give };
        let now = Timestamp::from_second(1_000).unwrap();
        only_safe(vec![Step::Command(command)], None, &observation, now)
            .1
            .into_iter()
            .map(|it| it.rule)
            .collect::<Vec<_>>()
    };
    assert_eq!((broken(3), broken(1)), (vec!["its pod is about to end".to_owned()], vec![]));
}
