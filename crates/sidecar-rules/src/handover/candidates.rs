//! Who could take over from this node, best first. Pure.

use super::Outcome;
use std::{cmp::Reverse, net::SocketAddr};
use topology::{ClusterNode, ClusterNodes, NodeId};

/// A replica as its primary sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedReplica {
    pub address: SocketAddr,
    pub online: bool,
    pub offset: u64,
    pub lag_seconds: Option<u64>,
}

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
    /// `is_replica`: what the server says of its role; `attached`: the replicas it streams to.
    pub fn of(is_replica: bool, nodes: &ClusterNodes, attached: &[AttachedReplica]) -> Self {
        let Some(myself) = nodes.myself() else { return Standing::Standalone };
        if is_replica || !myself.is_primary() {
            return Standing::Replica;
        }
        if myself.slots.is_empty() {
            return Standing::WithoutSlots;
        }
        let mut candidates: Vec<Candidate> =
            nodes.replicas_of(&myself.id).filter_map(|node| candidate(node, attached)).collect();
        candidates.sort_by_key(|candidate| Reverse(candidate.offset));
        Standing::Primary { candidates }
    }

    /// Those to try, in this order; `Err` when there is nothing to hand over.
    pub fn candidates(self) -> Result<Vec<Candidate>, Outcome> {
        match self {
            Standing::Replica => Err(Outcome::NothingToDo("this node is a replica")),
            Standing::WithoutSlots => Err(Outcome::NothingToDo("this primary serves no slots")),
            Standing::Standalone => Err(Outcome::NothingToDo("this server is not part of a cluster")),
            Standing::Primary { candidates } if candidates.is_empty() => Err(Outcome::NoReplica),
            Standing::Primary { candidates } => Ok(candidates),
        }
    }

    /// Another node serves what this one served.
    pub fn is_handed_over(&self) -> bool {
        matches!(self, Standing::Replica | Standing::WithoutSlots)
    }
}

/// Both views have to agree: the cluster's that the node is sound, the primary's that it streams to it.
fn candidate(node: &ClusterNode, attached: &[AttachedReplica]) -> Option<Candidate> {
    let address = node.address.filter(|_| node.is_sound())?;
    let stream = attached.iter().find(|replica| replica.address == address)?;
    let follows = stream.online && stream.lag_seconds.is_some_and(|lag| lag <= LONGEST_LAG_SECONDS);
    follows.then(|| Candidate { id: node.id.clone(), address, hostname: node.hostname.clone(), offset: stream.offset })
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
    fn attached(last: u8, offset: u64) -> AttachedReplica {
        AttachedReplica { address: ([10, 0, 0, last], 6379).into(), online: true, offset, lag_seconds: Some(0) }
    }

    fn all() -> [AttachedReplica; 3] {
        [attached(2, 100), attached(3, 200), attached(4, 300)]
    }

    fn standing(nodes: &str, attached: &[AttachedReplica]) -> Standing {
        Standing::of(false, &ClusterNodes::parse(nodes).unwrap(), attached)
    }

    fn names(standing: Standing) -> Vec<String> {
        match standing {
            Standing::Primary { candidates } => candidates.iter().map(Candidate::name).collect(),
            other => panic!("{other:?} is not a primary with slots"),
        }
    }

    #[test]
    fn the_replica_with_the_highest_offset_comes_first_and_a_failed_one_not_at_all() {
        assert_eq!(names(standing(NODES, &all())), ["p-2", "p-1"]);
    }

    #[test]
    fn a_replica_still_copying_or_lagging_is_no_candidate() {
        let second = |change: fn(&mut AttachedReplica)| {
            let mut attached = all();
            change(&mut attached[1]);
            names(standing(NODES, &attached))
        };
        assert_eq!(second(|replica| replica.online = false), ["p-1"]);
        assert_eq!(second(|replica| replica.lag_seconds = Some(30)), ["p-1"]);
        assert_eq!(second(|replica| replica.lag_seconds = None), ["p-1"]);
        assert_eq!(second(|replica| replica.address.set_port(6380)), ["p-1"]);
    }

    /// It only keeps a replica from standing for election by itself.
    #[test]
    fn the_flag_that_every_replica_has_bars_none() {
        let all_flagged = NODES.replace(" slave ", " slave,nofailover ");
        assert_eq!(names(standing(&all_flagged, &all())), names(standing(NODES, &all())));
    }

    #[test]
    fn replicas_and_primaries_without_slots_have_nothing_to_hand_over() {
        let nodes = ClusterNodes::parse(NODES).unwrap();
        assert_eq!(Standing::of(true, &nodes, &[]), Standing::Replica);
        assert_eq!(standing(&NODES.replace(" 0-5460", ""), &[]), Standing::WithoutSlots);
        assert_eq!(names(standing(NODES, &[])), [""; 0]);
        assert_eq!(standing(NODES, &[]).candidates(), Err(Outcome::NoReplica));
        for nothing in [Standing::Replica, Standing::WithoutSlots, Standing::Standalone] {
            assert!(matches!(nothing.candidates(), Err(Outcome::NothingToDo(_))));
        }
    }

    #[test]
    fn it_is_handed_over_once_this_node_serves_nothing_any_more() {
        assert!(Standing::Replica.is_handed_over() && Standing::WithoutSlots.is_handed_over());
        assert!(!standing(NODES, &all()).is_handed_over());
    }
}
