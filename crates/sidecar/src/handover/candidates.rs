//! Who could take over from this node, best first. Pure.

use std::{cmp::Reverse, net::SocketAddr};
use topology::{ClusterNode, ClusterNodes, NodeId};
use valkey::{Info, info::AttachedReplica};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Standalone,
    Replica,
    WithoutSlots,
    Primary { candidates: Vec<Candidate> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: NodeId,
    pub address: SocketAddr,
    pub hostname: Option<String>,
    pub offset: u64,
}

impl Candidate {
    pub fn name(&self) -> String {
        self.hostname.clone().unwrap_or_else(|| self.address.to_string())
    }
}

/// A replica silent for longer than this would only cost the time of a failed try.
const LONGEST_LAG_SECONDS: u64 = 10;

impl Standing {
    pub fn of(replication: &Info, nodes: &ClusterNodes) -> Self {
        let Some(myself) = nodes.myself() else { return Standing::Standalone };
        if replication.is_replica() || !myself.is_primary() {
            return Standing::Replica;
        }
        if myself.slots.is_empty() {
            return Standing::WithoutSlots;
        }
        let attached = replication.attached_replicas();
        let mut candidates: Vec<Candidate> =
            nodes.replicas_of(&myself.id).filter_map(|node| candidate(node, &attached)).collect();
        candidates.sort_by_key(|candidate| Reverse(candidate.offset));
        Standing::Primary { candidates }
    }
}

/// Both views have to agree: the cluster's that the node is sound, the primary's that it streams to it.
fn candidate(node: &ClusterNode, attached: &[AttachedReplica]) -> Option<Candidate> {
    let address = node.address.filter(|_| node.is_sound() && !node.has_flag("nofailover"))?;
    let stream = attached.iter().find(|replica| replica.port == address.port() && is_ip(replica, address))?;
    let follows = stream.online && stream.lag_seconds.is_some_and(|lag| lag <= LONGEST_LAG_SECONDS);
    follows.then(|| Candidate { id: node.id.clone(), address, hostname: node.hostname.clone(), offset: stream.offset })
}

fn is_ip(replica: &AttachedReplica, address: SocketAddr) -> bool {
    replica.ip.parse() == Ok(address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
me 10.0.0.1:6379@16379,p-0 myself,master - 0 0 7 connected 0-5460
r1 10.0.0.2:6379@16379,p-1 slave me 0 1 7 connected
r2 10.0.0.3:6379@16379,p-2 slave me 0 1 7 connected
r3 10.0.0.4:6379@16379,p-3 slave,fail me 0 1 7 connected
other 10.0.0.5:6379@16379,p-4 slave else 0 1 8 connected
";
    const REPLICATION: &str = "role:master\n\
        slave0:ip=10.0.0.2,port=6379,state=online,offset=100,lag=0,type=replica\n\
        slave1:ip=10.0.0.3,port=6379,state=online,offset=200,lag=1,type=replica\n\
        slave2:ip=10.0.0.4,port=6379,state=online,offset=300,lag=0,type=replica\n";

    fn standing(replication: &str, nodes: &str) -> Standing {
        Standing::of(&Info::parse(replication), &ClusterNodes::parse(nodes).unwrap())
    }

    fn names(standing: Standing) -> Vec<String> {
        match standing {
            Standing::Primary { candidates } => candidates.iter().map(Candidate::name).collect(),
            other => panic!("{other:?} is not a primary with slots"),
        }
    }

    #[test]
    fn the_replica_with_the_highest_offset_comes_first_and_a_failed_one_not_at_all() {
        assert_eq!(names(standing(REPLICATION, NODES)), ["p-2", "p-1"]);
    }

    #[test]
    fn a_replica_still_copying_lagging_or_barred_is_no_candidate() {
        let copying = REPLICATION.replace("10.0.0.3,port=6379,state=online", "10.0.0.3,port=6379,state=send_bulk");
        assert_eq!(names(standing(&copying, NODES)), ["p-1"]);
        assert_eq!(names(standing(&REPLICATION.replace("lag=1", "lag=30"), NODES)), ["p-1"]);
        assert_eq!(names(standing(REPLICATION, &NODES.replace("p-2 slave", "p-2 slave,nofailover"))), ["p-1"]);
    }

    #[test]
    fn replicas_and_primaries_without_slots_have_nothing_to_hand_over() {
        assert_eq!(standing("role:slave\n", NODES), Standing::Replica);
        assert_eq!(standing("role:master\n", &NODES.replace(" 0-5460", "")), Standing::WithoutSlots);
        assert_eq!(names(standing("role:master\n", NODES)), [""; 0]);
    }
}
