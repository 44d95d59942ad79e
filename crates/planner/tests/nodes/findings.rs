//! What is said of nodes that are merely not heard: nothing that is not known.

use crate::cluster::{Cluster, ago, finding};
use api::conditions::Reason;
use planner::nodes::{
    Answers, Event, FindingKind, NodeFacts, Orchestration, OrchestrationKind, PodObservation, Stage, Valkey,
};
use topology::NodeId;

impl Cluster {
    /// Its sidecar is not on the line; the other nodes hear its Valkey as before.
    fn unheard(mut self, index: usize) -> Cluster {
        self.change(index, |pod| (pod.connected, pod.valkey, pod.view) = (false, Valkey::Unknown, None));
        self
    }

    fn healing(mut self, step_began: i64) -> Cluster {
        self.seen.running = Some(Orchestration {
            id: "heal-1".to_owned(),
            kind: OrchestrationKind::Heal,
            step: Stage::Verify,
            step_version: 2,
            started_at: ago(step_began),
            step_started_at: ago(step_began),
            waiting_for: None,
            answers: Answers::default(),
            announced: true,
        });
        self
    }
}

fn replicas_in_sync(cluster: &Cluster) -> (Option<bool>, Option<Reason>) {
    let decision = cluster.decide();
    let (status, reason, _) = finding(&decision, FindingKind::ReplicasInSync);
    (status, reason)
}

fn reasons(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.reason).collect()
}

#[test]
fn a_formed_cluster_of_which_nobody_is_heard_is_not_called_unformed() {
    let nobody = (0..6).fold(Cluster::whole(), Cluster::unheard);
    assert_eq!(replicas_in_sync(&nobody), (None, Some(Reason::NotHeard)));
    let no_primary = (0..3).fold(Cluster::whole(), Cluster::unheard);
    assert_eq!(replicas_in_sync(&no_primary), (None, Some(Reason::NotHeard)));
}

#[test]
fn a_replica_that_is_merely_not_heard_is_not_called_missing() {
    let cluster = Cluster::whole().unheard(3);
    assert_eq!(replicas_in_sync(&cluster), (None, Some(Reason::NotHeard)));
    assert!(finding(&cluster.decide(), FindingKind::ReplicasInSync).2.contains("p-3"));
    let failed = Cluster::whole().silent(3, Some(40), true);
    assert_eq!(replicas_in_sync(&failed), (Some(false), Some(Reason::ReplicasMissing)), "nobody else hears it either");
}

#[test]
fn a_heal_that_ends_while_nodes_are_not_heard_is_not_told_as_healed() {
    assert_eq!(reasons(&Cluster::whole().healing(40).decide().events), ["Healed"]);
    let events = Cluster::whole().unheard(3).healing(40).decide().events;
    assert_eq!(reasons(&events), ["HealUnfinished"]);
    assert!(events[0].message.contains("not heard: p-3"), "{}", events[0].message);
}

fn available(cluster: &Cluster) -> (Option<bool>, Option<Reason>) {
    let decision = cluster.decide();
    let (status, reason, _) = finding(&decision, FindingKind::Available);
    (status, reason)
}

const SERVING: (Option<bool>, Option<Reason>) = (Some(true), Some(Reason::Serving));

#[test]
fn a_cluster_is_available_whatever_its_replicas_do() {
    assert_eq!(available(&Cluster::whole()), SERVING);
    let restarting = Cluster::whole().down(4, 1);
    assert_eq!(available(&restarting), SERVING);
    assert_eq!(replicas_in_sync(&restarting).0, Some(false));
    let (status, reason) = available(&Cluster::whole().down(1, 1));
    assert_eq!((status, reason), (Some(false), Some(Reason::PrimaryDown)));
    assert_eq!(available(&Cluster::whole().unheard(1)), (None, Some(Reason::NotHeard)), "nobody calls it failed");
}

#[test]
fn a_primary_that_answers_and_takes_no_writes_is_not_available() {
    let refused = (Some(false), Some(Reason::WritesRefused));
    let with = |change: fn(&mut NodeFacts)| {
        let mut cluster = Cluster::whole();
        cluster.facts(1, change);
        available(&cluster)
    };
    assert_eq!(with(|facts| facts.serving = false), refused, "its sidecar holds its writes back");
    assert_eq!(with(|facts| facts.loading = true), refused);
    assert_eq!(with(|facts| facts.summary.state_ok = false), refused);
    let mut lonely = Cluster::whole().down(4, 1);
    lonely.target.min_replicas_to_write = 1;
    assert_eq!(available(&lonely), refused, "minReplicasToWrite is 1, and its replica is away");
    let decision = lonely.decide();
    assert!(finding(&decision, FindingKind::Available).2.contains("p-1"), "{decision:?}");
    let mut silent = Cluster::whole().unheard(4);
    silent.target.min_replicas_to_write = 1;
    assert_eq!(available(&silent), (None, Some(Reason::NotHeard)), "only its sidecar is away");
}

#[test]
fn a_view_that_has_to_be_read_again_says_nothing_against_the_cluster() {
    let mut cluster = Cluster::whole();
    cluster.age_view(4);
    let decision = cluster.decide();
    let (status, _, message) = finding(&decision, FindingKind::ViewsAgree);
    assert_eq!(status, None, "{message}");
    cluster.facts(5, |facts| facts.summary.state_ok = false);
    assert_eq!(finding(&cluster.decide(), FindingKind::ViewsAgree).0, Some(false), "one says that it is not whole");
}

fn degraded(cluster: &Cluster) -> Option<Reason> {
    finding(&cluster.decide(), FindingKind::Degraded).1
}

/// Both pods of a shard were deleted, and others are on their way: an empty shard takes the place of the lost one by itself.
#[test]
fn a_cache_that_is_about_to_heal_by_itself_is_not_called_lost() {
    let cache = |change: fn(&mut PodObservation)| {
        let mut cluster = Cluster::whole();
        cluster.target.persistent = false;
        for index in [0, 3] {
            cluster.change(index, |pod| {
                (pod.uid, pod.connected, pod.view) = ("uid-of-the-next".into(), false, None);
                change(pod);
            });
        }
        for index in [1, 2, 4, 5] {
            cluster.lines(index, |line| {
                line.failing = ["0", "3"].iter().any(|dead| line.node_id.as_str().starts_with(dead))
            });
        }
        cluster
    };
    let starting = cache(|pod| pod.valkey = Valkey::Unknown);
    assert_ne!(degraded(&starting), Some(Reason::ShardLost), "the new pods are on their way");
    let fresh = cache(|pod| {
        let facts = NodeFacts::fresh(NodeId::new(format!("{}{}", pod.name.as_str().len(), "f".repeat(39))));
        (pod.connected, pod.valkey) = (true, Valkey::Answers(facts));
    });
    assert_ne!(degraded(&fresh), Some(Reason::ShardLost), "they are given its slots in a moment");
    let ended = cache(|pod| (pod.connected, pod.valkey) = (true, Valkey::Down { since: ago(60), node_id: None }));
    assert_eq!(degraded(&ended), Some(Reason::ShardLost), "nothing comes of these");
}
