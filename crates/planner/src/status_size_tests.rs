//! The largest status there can be: a thousand pods, everything wrong at once, every text as long as it may be.

use super::*;
use crate::nodes::{Answers, Decision, FindingKind, NodeFinding, NodeState, OrchestrationKind};
use crate::nodes::{Orchestration, Queued, Setback, Shard, ShardNode, Stage};
use crate::sidecars::{Contact, Sidecar};
use topology::{NodeId, PodName, Role, ShardId, SlotRange, SlotSet};

/// etcd takes one and a half MiB by default: half of it is for spec and metadata.
const ROOM: usize = 768 * 1024;
/// Longest name of a cluster.
const NAME: &str = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";

fn words(count: usize) -> String {
    "ä".repeat(count)
}

fn shard(number: usize, masters: usize, replicas: usize) -> Shard {
    // As scattered as slots can be.
    let slots =
        (0..16_384u16).filter(|slot| usize::from(*slot) % masters == number).map(|slot| SlotRange::new(slot, slot));
    let node = |copy: usize| ShardNode {
        pod: PodName::new(format!("{NAME}-{:04}", number + copy * masters)),
        pod_uid: Some("0b1f7f5e-6a1c-4c39-9f0e-1d6a4c1c9f10".into()),
        node_id: NodeId::new("a".repeat(40)),
        role: if copy == 0 { Role::Primary } else { Role::Replica },
        state: NodeState::Syncing,
    };
    Shard {
        id: ShardId::new(format!("shard-{number}")),
        slots: SlotSet::of(slots).unwrap(),
        replication_id: Some("f".repeat(64)),
        nodes: (0..=replicas).map(node).collect(),
    }
}

fn decision(masters: usize, replicas: usize) -> Decision {
    let text = || words(300);
    let kinds =
        [FindingKind::SlotsCovered, FindingKind::ReplicasInSync, FindingKind::ViewsAgree, FindingKind::Degraded];
    let finding = |kind| NodeFinding { kind, status: Some(false), reason: Reason::NotHeard, message: words(100_000) };
    let setback = Setback { pod: PodName::new(format!("{NAME}-0999")), message: text() };
    let now = Timestamp::UNIX_EPOCH;
    let orchestration = Orchestration {
        id: "failover-1763323800000".to_owned(),
        kind: OrchestrationKind::Failover,
        step: Stage::MeetPrimaries,
        step_version: u64::MAX,
        started_at: now,
        step_started_at: now,
        waiting_for: Some(text()),
        answers: Answers { done: 1000, failed: 1000, refused: 1000, troubles: vec![setback; 8] },
        announced: true,
    };
    Decision {
        shards: (0..masters).map(|number| shard(number, masters, replicas)).collect(),
        findings: kinds.map(finding).into(),
        orchestration: Some(orchestration),
        queue: [OrchestrationKind::Failover, OrchestrationKind::Form, OrchestrationKind::Heal]
            .map(|kind| Queued { kind, since: now, why: text() })
            .into(),
        plan: vec![text(); 8],
        ..Decision::default()
    }
}

fn sidecar(ordinal: u32) -> Sidecar {
    Sidecar {
        pod: format!("{NAME}-{ordinal:04}"),
        state: Contact::Missing,
        last_heartbeat: Some(Timestamp::UNIX_EPOCH),
        version: Some(words(256)),
        certificate_expires: Some(Timestamp::UNIX_EPOCH),
        turned_away: Some(words(1_000)),
    }
}

#[test]
fn the_status_of_a_thousand_pods_in_trouble_is_half_of_what_an_object_may_have() {
    for (masters, replicas) in [(1000, 0), (500, 1), (166, 5)] {
        let mut report = Report { nodes: Some(decision(masters, replicas)), ..Report::default() };
        report.sidecars = (0..1000).map(sidecar).collect();
        report.pending = vec![words(10_000); 10];
        report.restart = [(words(10_000), 1000)].into();
        report.trouble(Reason::ObjectRefused, words(100_000));
        let cluster = Identity { name: NAME.to_owned(), ..Identity::default() };
        let status = status(&report, &cluster, None, Timestamp::UNIX_EPOCH);
        let size = serde_json::to_vec(&status).unwrap().len();
        assert_eq!((status.shards.len(), status.pods.len()), (masters, 100));
        assert!(size < ROOM, "{masters} x (1 + {replicas}): {size}");
        assert!(size > 200_000, "{size}: not large any more");
    }
}
