//! A leader that ended after the nodes had done what it told them and before it was written down.

use crate::cluster::{Cluster, id};
use api::conditions::Reason;

/// Slots of a lost shard were given to the node that runs in its pod now, and the others were introduced to it.
fn given_away() -> Cluster {
    let mut cluster = Cluster::whole();
    for node in cluster.seen.recorded.iter_mut().flat_map(|shard| &mut shard.nodes) {
        if node.node_id == id(0) {
            (node.node_id, node.pod_uid) = (id(8), Some("uid-before".into()));
        }
    }
    cluster
}

fn is_foreign(cluster: &Cluster) -> bool {
    cluster.decide().findings.iter().any(|finding| finding.reason == Reason::ForeignNode)
}

#[test]
fn a_node_that_those_on_record_were_introduced_to_belongs_here_with_all_it_has() {
    let cluster = given_away();
    let decision = cluster.decide();
    assert!(!is_foreign(&cluster), "{:?}", decision.findings);
    let recorded = decision.shards.iter().flat_map(|shard| &shard.nodes).any(|node| node.node_id == id(0));
    assert!(recorded, "{:?}", decision.shards);
}

#[test]
fn a_node_with_data_whom_nobody_on_record_knows_is_left_alone() {
    let mut cluster = given_away();
    for pod in &mut cluster.seen.pods {
        if let Some(view) = pod.view.as_mut().filter(|view| view.myself().is_some_and(|own| own.node_id != id(0))) {
            view.nodes.retain(|line| line.node_id != id(0));
        }
    }
    assert!(is_foreign(&cluster));
}

#[test]
fn a_node_that_knows_others_than_those_on_record_do_is_left_alone() {
    let mut cluster = given_away();
    for pod in &mut cluster.seen.pods {
        if let Some(view) = pod.view.as_mut().filter(|view| view.myself().is_some_and(|own| own.node_id == id(0))) {
            let stranger = view.nodes.iter().find(|line| !line.myself).cloned();
            view.nodes.extend(stranger.map(|line| topology::ViewedNode { node_id: id(7), ..line }));
        }
    }
    assert!(is_foreign(&cluster));
}
