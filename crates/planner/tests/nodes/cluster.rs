//! A cluster of three primaries, 0 to 2, with a replica each, 3 to 5, to be spoilt by each test.

use api::conditions::Reason;
use jiff::{SignedDuration, Timestamp};
use planner::nodes::{
    Decision, FindingKind, Following, NodeFacts, NodeObservation, NodeState, PodObservation, Shard, ShardNode, Target,
    Valkey, decide,
};
use std::time::Duration;
use topology::{NodeId, NodeView, PodName, PodUid, Role, ShardId, SlotMove, SlotSet, ViewSummary, ViewedNode, even};

pub const PRIMARIES: usize = 3;
pub const NODES: usize = 6;

pub struct Cluster {
    pub target: Target,
    pub seen: NodeObservation,
}

pub fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_800_000_000)
}

pub fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

pub fn id(index: usize) -> NodeId {
    NodeId::new(format!("{index}{}", "0".repeat(39)))
}

fn role(index: usize) -> Role {
    if index < PRIMARIES { Role::Primary } else { Role::Replica }
}

fn slots(index: usize) -> SlotSet {
    even(&SlotSet::all(), PRIMARIES).get(index).cloned().unwrap_or_default()
}

fn summary(index: usize) -> ViewSummary {
    let slots_mine = slots(index).count();
    ViewSummary { state_ok: true, known_nodes: 6, slots_assigned: 16_384, slots_mine, ..ViewSummary::default() }
}

fn line(index: usize, speaker: usize) -> ViewedNode {
    ViewedNode {
        node_id: id(index),
        ip: format!("10.0.0.{index}"),
        hostname: None,
        role: role(index),
        myself: index == speaker,
        failing: false,
        possibly_failing: false,
        handshake: false,
        link_up: true,
        primary: (index >= PRIMARIES).then(|| id(index - PRIMARIES)),
        config_epoch: 1,
        slots: slots(index),
        moves: Vec::new(),
    }
}

/// The primary of a new shard, or its replica.
fn new_line(index: usize, speaker: usize) -> ViewedNode {
    let replica = index > 6;
    ViewedNode {
        role: if replica { Role::Replica } else { Role::Primary },
        primary: replica.then(|| id(6)),
        ..line(index, speaker)
    }
}

fn pod(index: usize) -> PodObservation {
    let replica = index >= PRIMARIES;
    let facts = NodeFacts {
        role: role(index),
        replication_offset: 100,
        replication_id: Some(format!("history-{}", index % PRIMARIES)),
        primary: replica.then(|| id(index - PRIMARIES)),
        primary_link_up: replica,
        following: if replica { Following::Now } else { Following::Unknown },
        keys: 9,
        started_at: Some(ago(9_000)),
        summary: summary(index),
        ..NodeFacts::fresh(id(index))
    };
    let nodes = (0..NODES).map(|other| line(other, index)).collect();
    PodObservation {
        ip: Some(format!("10.0.0.{index}")),
        connected: true,
        valkey: Valkey::Answers(facts),
        view: Some(NodeView { read_at: now(), summary: summary(index), nodes }),
        ..PodObservation::unheard(PodName::new(format!("p-{index}")), PodUid::new(format!("uid-{index}")))
    }
}

fn shard(index: usize) -> Shard {
    let node = |index: usize| ShardNode {
        pod: PodName::new(format!("p-{index}")),
        pod_uid: Some(PodUid::new(format!("uid-{index}"))),
        node_id: id(index),
        role: role(index),
        state: NodeState::Online,
    };
    Shard {
        id: ShardId::new(format!("shard-{index}")),
        slots: slots(index),
        replication_id: Some(format!("history-{index}")),
        nodes: vec![node(index), node(index + PRIMARIES)],
    }
}

impl Cluster {
    pub fn whole() -> Cluster {
        let target = Target {
            cluster: "p".to_owned(),
            masters: 3,
            replicas_per_master: 1,
            persistent: true,
            node_timeout: Duration::from_secs(5),
            min_replicas_to_write: 0,
        };
        let seen = NodeObservation {
            pods: (0..NODES).map(pod).collect(),
            recorded: (0..PRIMARIES).map(shard).collect(),
            ..NodeObservation::default()
        };
        Cluster { target, seen }
    }

    /// A second replica of the first shard, in a seventh pod.
    pub fn with_second_replica(mut self) -> Cluster {
        let mut second = pod(3);
        (second.name, second.uid, second.ip) = ("p-6".into(), "uid-6".into(), Some("10.0.0.6".to_owned()));
        if let (Valkey::Answers(facts), Some(view)) = (&mut second.valkey, &mut second.view) {
            facts.node_id = id(6);
            view.nodes.iter_mut().filter(|line| line.myself).for_each(|line| line.node_id = id(6));
        }
        self.seen.pods.push(second);
        self
    }

    /// A fourth primary without slots in a seventh pod and its replica in an eighth; so many keys came to them.
    pub fn with_new_shard(mut self, keys: u64) -> Cluster {
        self.target.masters = 4;
        for index in [6, 7] {
            self.seen.pods.push(pod(index));
            self.facts(index, |facts| {
                facts.keys = keys;
                if index == 6 {
                    (facts.role, facts.primary, facts.primary_link_up) = (Role::Primary, None, false);
                    facts.following = Following::Unknown;
                } else {
                    facts.primary = Some(id(6));
                }
            });
        }
        for (speaker, pod) in self.seen.pods.iter_mut().enumerate() {
            let (Valkey::Answers(facts), Some(view)) = (&mut pod.valkey, &mut pod.view) else { continue };
            (facts.summary.known_nodes, view.summary.known_nodes) = (8, 8);
            view.nodes.extend([new_line(6, speaker), new_line(7, speaker)]);
        }
        self
    }

    /// A slot of the first primary is half moved to this one.
    pub fn half_moved(mut self, slot: u16, to: usize) -> Cluster {
        self.own_line(0, |line| line.moves = vec![SlotMove { slot, other: id(to), importing: false }]);
        self.own_line(to, |line| line.moves = vec![SlotMove { slot, other: id(0), importing: true }]);
        self
    }

    /// Changes what this node says of itself in its view.
    pub fn own_line(&mut self, index: usize, change: impl Fn(&mut ViewedNode)) {
        let view = self.seen.pods.get_mut(index).and_then(|pod| pod.view.as_mut());
        view.into_iter().flat_map(|view| &mut view.nodes).filter(|line| line.myself).for_each(change);
    }

    /// Its node lost power: its sidecar is silent since so many seconds, and this is what the others say.
    pub fn silent(mut self, index: usize, since: Option<i64>, failing: bool) -> Cluster {
        self.change(index, |pod| {
            (pod.connected, pod.valkey, pod.view, pod.last_answer) = (false, Valkey::Unknown, None, since.map(ago));
        });
        self.lines(index, |line| {
            (line.failing, line.possibly_failing, line.link_up) = (failing, !failing, false);
        });
        self
    }

    /// Its process is gone for so many seconds, as its sidecar says.
    pub fn down(mut self, index: usize, since: i64) -> Cluster {
        let down = Valkey::Down { since: ago(since), node_id: Some(id(index)) };
        self.change(index, |pod| (pod.valkey, pod.view) = (down.clone(), None));
        self
    }

    /// Its latest word is newer than its view.
    pub fn age_view(&mut self, index: usize) {
        self.facts(index, |facts| facts.summary.current_epoch += 1);
    }

    pub fn following(mut self, index: usize, following: Following) -> Cluster {
        self.facts(index, |facts| {
            (facts.following, facts.primary_link_up) = (following, following == Following::Now);
        });
        self
    }

    pub fn change(&mut self, index: usize, change: impl Fn(&mut PodObservation)) {
        self.seen.pods.get_mut(index).into_iter().for_each(change);
    }

    /// Changes what it says of itself.
    pub fn facts(&mut self, index: usize, change: impl Fn(&mut NodeFacts)) {
        self.change(index, |pod| {
            if let Valkey::Answers(facts) = &mut pod.valkey {
                change(facts);
            }
        });
    }

    /// Changes what every node says of this one.
    pub fn lines(&mut self, index: usize, change: impl Fn(&mut ViewedNode)) {
        let views = self.seen.pods.iter_mut().filter_map(|pod| pod.view.as_mut());
        let lines = views.flat_map(|view| &mut view.nodes).filter(|line| line.node_id == id(index) && !line.myself);
        lines.for_each(change);
    }

    /// Decides once to begin, and again after so many seconds in the step that was begun.
    pub fn after(&mut self, seconds: i64) -> Decision {
        let mut running = self.decide().orchestration;
        running.iter_mut().for_each(|running| running.step_started_at = ago(seconds));
        self.seen.running = running;
        self.decide()
    }

    pub fn decide(&self) -> Decision {
        decide(&self.target, &self.seen, now())
    }
}

/// Status, reason and message.
pub fn finding(decision: &Decision, kind: FindingKind) -> (Option<bool>, Option<Reason>, &str) {
    let found = decision.findings.iter().find(|finding| finding.kind == kind);
    found.map_or((None, None, "nothing is said"), |found| (found.status, Some(found.reason), &found.message))
}
