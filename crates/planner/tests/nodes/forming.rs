//! A formation in the course of which fewer pods were wanted.

use crate::cluster::{Cluster, id};
use planner::nodes::{Action, Decision};
use planner::safety::check_commands;
use topology::{NodeId, Role, SlotSet};

/// Pods from 3 on were met before they were not wanted any more, and have no primary yet. Then all pods got other addresses, and only
/// those before 3 know of each other's.
fn moved_on() -> Cluster {
    let mut cluster = Cluster::whole();
    cluster.target.replicas_per_master = 0;
    cluster.seen.recorded.clear();
    for index in 3..6 {
        cluster.facts(index, |facts| {
            (facts.role, facts.primary, facts.keys) = (Role::Primary, None, 0);
            facts.summary.known_nodes = 5;
        });
    }
    for (index, pod) in cluster.seen.pods.iter_mut().enumerate() {
        for line in pod.view.iter_mut().flat_map(|view| &mut view.nodes) {
            let spare = (3..6).any(|other| id(other) == line.node_id);
            if spare {
                (line.role, line.primary) = (Role::Primary, None);
            }
            if !line.myself && (spare || index >= 3) {
                (line.ip, line.slots) = (format!("before-{}", line.ip), SlotSet::default());
            }
        }
        if let Some(view) = pod.view.as_mut().filter(|_| index >= 3) {
            view.summary.known_nodes = 5;
        }
    }
    cluster
}

fn met(decision: &Decision) -> Vec<NodeId> {
    let met = |action: &Action| match action {
        Action::Meet(peers) => peers.iter().map(|peer| peer.node_id.clone()).collect(),
        _ => Vec::new(),
    };
    decision.commands.iter().flat_map(|command| met(&command.action)).collect()
}

#[test]
fn nodes_that_were_met_before_fewer_were_wanted_are_met_where_they_are_now() {
    let cluster = moved_on();
    let decision = cluster.decide();
    let met = met(&decision);
    assert!((3..6).all(|index| met.contains(&id(index))), "{:?} {:?}", decision.plan, decision.commands);
    assert_eq!(check_commands(&decision.commands, &cluster.target, &cluster.seen), Ok(()));
}
