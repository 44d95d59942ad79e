//! A primary with fewer replicas than `minReplicasToWrite` takes no writes. A higher number waits until every shard has that many, or
//! asking for more replicas would end the writes until they are there. Pure; a part of `plan`.

use crate::nodes::{NodeState, Shard};
use crate::observation::Observation;
use crate::plan::stored_min_replicas_to_write;
use crate::report::Report;
use manifests::ValidatedCluster;
use std::borrow::Cow;
use topology::Role;

const PARAMETER: &str = "min-replicas-to-write";

/// The cluster with the number that can be in effect now.
pub fn in_effect<'c>(
    cluster: &'c ValidatedCluster,
    observation: &Observation,
    report: &mut Report,
) -> Cow<'c, ValidatedCluster> {
    let asked = cluster.spec.replication.min_replicas_to_write;
    let live = stored_min_replicas_to_write(observation).and_then(|live| i32::try_from(live).ok());
    let Some(live) = live.filter(|live| *live < asked && is_short(observation, asked)) else {
        return Cow::Borrowed(cluster);
    };
    report.waiting.push(format!("minReplicasToWrite stays {live} until every shard has {asked} replicas in sync"));
    let mut cluster = cluster.clone();
    cluster.spec.replication.min_replicas_to_write = live;
    cluster.parameters.insert(PARAMETER.to_owned(), live.to_string());
    Cow::Owned(cluster)
}

/// Some shard on record has fewer replicas in sync.
fn is_short(observation: &Observation, asked: i32) -> bool {
    let online = |shard: &Shard| {
        let replicas = shard.nodes.iter().filter(|node| node.role == Role::Replica && node.state == NodeState::Online);
        i32::try_from(replicas.count()).unwrap_or(i32::MAX)
    };
    observation.nodes.iter().flat_map(|nodes| &nodes.recorded).any(|shard| online(shard) < asked)
}
