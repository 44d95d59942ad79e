//! Leave: this node becomes a new and empty one that knows nobody. What it holds is thrown away, so it must hold nothing that is
//! only here.

use super::{Need, Objection, migrate_slots::way_out, myself};
use topology::{ClusterNode, ClusterNodes, NodeId, SlotMove};

/// What the node says of its own data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub keys: u64,
    /// Its link to its primary is up.
    pub link_up: bool,
    pub replication_id: String,
    /// Valkey moves slots to or from here by itself; while they come, they show in no other way.
    pub migrates: bool,
    /// Half moved slots that may still come: their other end says so, or gave no answer.
    pub may_come: Vec<SlotMove>,
}

/// Whether a slot that this node notes as half moved may still come. `other`: what the other end said, if it answered.
pub fn may_come(me: &NodeId, open: &SlotMove, other: Option<&ClusterNodes>) -> bool {
    let other = other.and_then(ClusterNodes::myself).filter(|node| node.id == open.other);
    other.is_none_or(|node| node.moves.iter().any(|there| there.slot == open.slot && there.other == *me))
}

/// What its primary said when it was asked itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    pub view: ClusterNodes,
    pub keys: u64,
    pub replication_id: String,
}

/// The primary that has to be asked first.
pub fn primary_to_ask(nodes: &ClusterNodes) -> Option<&ClusterNode> {
    nodes.find(nodes.myself()?.primary.as_ref()?)
}

/// `primary`: `None` when there is none to ask, and when it gave no answer.
pub fn check(nodes: &ClusterNodes, held: &Held, primary: Option<&Primary>) -> Result<Need, Objection> {
    let myself = myself(nodes)?;
    if !myself.slots.is_empty() {
        return Err(Objection::unsafe_because(format!("this node owns {} slots", myself.slots.count())));
    }
    if held.migrates {
        return Err(Objection::unsafe_because("Valkey is moving slots to this node or from it"));
    }
    // A replica's notes say what its primary did, once.
    if let Some(open) = held.may_come.first().filter(|_| myself.primary.is_none()) {
        return Err(Objection::unsafe_because(format!(
            "slot {} is half moved between here and {}, which does not say otherwise; {}",
            open.slot,
            open.other,
            way_out(open.slot, &open.other)
        )));
    }
    match &myself.primary {
        None if held.keys > 0 => Err(Objection::unsafe_because(format!(
            "this node is a primary with {} keys that no other node may have",
            held.keys
        ))),
        None if nodes.0.len() == 1 => Ok(Need::Nothing),
        None => Ok(Need::Change),
        Some(id) => match last_copy(nodes.find(id), held, primary) {
            Some(reason) => {
                Err(Objection::unsafe_because(format!("this replica may hold the last copy: its primary {reason}")))
            }
            None => Ok(Need::Change),
        },
    }
}

/// Why the primary may not have what this replica has. One that most others hold for failed is about to have a successor, which may
/// have to be this node.
fn last_copy(known: Option<&ClusterNode>, held: &Held, primary: Option<&Primary>) -> Option<&'static str> {
    let Some(known) = known else { return Some("is not known") };
    let Some(primary) = primary else { return Some("gave no answer") };
    let Some(itself) = primary.view.myself().filter(|node| node.id == known.id) else { return Some("is another node") };
    if known.is_failing() {
        Some("is failing in the view of this node")
    } else if !itself.is_primary() {
        Some("is a primary no more")
    } else if !held.link_up {
        Some("is not followed: the link to it is down")
    } else if primary.replication_id != held.replication_id {
        Some("has another history, so it was started anew")
    } else if itself.slots.is_empty() && primary.keys > 0 {
        Some("owns no slots and has keys")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "p 10.0.0.2:6379@16379 master - 0 0 1 connected 0-9\n";

    fn held(keys: u64) -> Held {
        Held { keys, link_up: true, replication_id: "h".into(), migrates: false, may_come: Vec::new() }
    }

    fn view(text: &str) -> ClusterNodes {
        ClusterNodes::parse(text).unwrap()
    }

    fn answers(line: &str, keys: u64) -> Primary {
        Primary { view: view(line), keys, replication_id: "h".into() }
    }

    fn asked(me: &str, other: &str, held: &Held, primary: Option<&Primary>) -> Result<Need, Objection> {
        check(&view(&format!("me 10.0.0.1:6379@16379 myself,{me}\n{other}")), held, primary)
    }

    #[test]
    fn only_a_primary_that_has_nothing_leaves_and_one_that_knows_nobody_has_left() {
        let asked = |me: &str, other, keys| asked(me, other, &held(keys), None);
        assert_eq!(asked("master - 0 0 0 connected", PRIMARY, 0), Ok(Need::Change));
        assert_eq!(asked("master - 0 0 0 connected", "", 0), Ok(Need::Nothing));
        for (me, keys) in [("master - 0 0 0 connected 20", 0), ("master - 0 0 0 connected", 1)] {
            assert!(matches!(asked(me, PRIMARY, keys), Err(Objection::Unsafe(_))), "{me} {keys}");
        }
        assert!(asked("master - 0 0 0 connected", "", 1).is_err(), "it may hold what came from a disk");
    }

    #[test]
    fn a_note_of_a_slot_on_its_way_holds_a_primary_only_while_it_may_come() {
        let open = SlotMove { slot: 5, other: "p".into(), importing: true };
        let may_come = |line: &str| may_come(&"me".into(), &open, Some(&view(line)));
        let other = "p 10.0.0.2:6379@16379 myself,master - 0 0 1 connected 0-9";
        assert!(!may_come(&format!("{other} [6->-me] [5->-x]\n")) && may_come(&format!("{other} [5->-me]\n")));
        assert!(
            may_come(&format!("{}\n", other.replace("p 10", "x 10"))) && super::may_come(&"me".into(), &open, None)
        );
        let coming = Held { may_come: vec![open.clone()], ..held(0) };
        assert!(asked("master - 0 0 0 connected [5-<-p]", PRIMARY, &coming, None).is_err());
        assert_eq!(asked("master - 0 0 0 connected [5-<-p]", PRIMARY, &held(0), None), Ok(Need::Change));
        let serving = answers("p 10.0.0.2:6379@16379 myself,master - 0 0 1 connected 0-9\n", 5);
        let replica = asked("slave p 0 0 1 connected [5-<-x]", PRIMARY, &coming, Some(&serving));
        assert_eq!(replica, Ok(Need::Change), "it is its primary's");
        let migrates = Held { migrates: true, ..held(0) };
        assert!(asked("master - 0 0 0 connected", PRIMARY, &migrates, None).is_err());
    }

    #[test]
    fn a_replica_leaves_while_its_primary_is_there_with_the_data() {
        let me = "slave p 0 0 1 connected";
        let serving = answers("p 10.0.0.2:6379@16379 myself,master - 0 0 1 connected 0-9\n", 5);
        let drained = answers("p 10.0.0.2:6379@16379 myself,master - 0 0 1 connected\n", 0);
        assert_eq!(asked(me, PRIMARY, &held(5), Some(&serving)), Ok(Need::Change));
        assert_eq!(asked(me, PRIMARY, &held(5), Some(&drained)), Ok(Need::Change));
        let refused = |other, held: &Held, primary| asked(me, other, held, primary).is_err();
        let odd = Primary { keys: 3, ..drained.clone() };
        let demoted = answers("p 10.0.0.2:6379@16379 myself,slave me 0 0 1 connected\n", 5);
        let another = answers("x 10.0.0.2:6379@16379 myself,master - 0 0 1 connected 0-9\n", 5);
        let restarted = Primary { replication_id: "new".into(), ..serving.clone() };
        for primary in [None, Some(&odd), Some(&demoted), Some(&another), Some(&restarted)] {
            assert!(refused(PRIMARY, &held(5), primary), "{primary:?}");
        }
        assert!(refused(PRIMARY, &Held { link_up: false, ..held(5) }, Some(&serving)));
        assert!(refused("", &held(5), Some(&serving)));
        assert!(refused(&PRIMARY.replace("master -", "master,fail -"), &held(5), Some(&serving)));
    }
}
