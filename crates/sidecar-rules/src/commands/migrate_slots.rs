//! MigrateSlots: slots of this primary go to another one, with their keys.

use super::{Objection, myself};
use std::time::Duration;
use topology::{ClusterNode, ClusterNodes, NodeId, SlotSet};

/// A MIGRATE holds up both servers: so much in one go takes some milliseconds.
const BYTES_AT_ONCE: u64 = 1024 * 1024;
const KEYS_AT_ONCE: usize = 128;
/// How slow the other server may be with a huge key.
const BYTES_IN_A_SECOND: u64 = 4 * 1024 * 1024;

/// What the target says of itself.
#[derive(Clone, Debug)]
pub struct Target {
    pub view: ClusterNodes,
    pub cluster_ok: bool,
    pub loading: bool,
    pub copies: Copies,
}

/// The replicas attached to a primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    pub online: usize,
    /// They load everything anew.
    pub in_full_sync: usize,
}

/// How slots go from one primary to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Valkey does it by itself; clients see one change.
    Atomic,
    /// For old versions and for modules.
    KeyByKey,
}

/// What decides about the way, of one of the servers that take part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Of a server that does not answer it is not known.
    pub major_version: Option<u32>,
    pub modules: bool,
    pub open_slots: bool,
}

/// What one command takes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    pub slots: SlotSet,
    pub keys: u64,
}

/// Whether this node can be told at all; looked at before what is left of earlier moves is brought to an end.
pub fn check(nodes: &ClusterNodes, target: &NodeId, wanted: &SlotSet) -> Result<(), Objection> {
    if wanted.is_empty() {
        return Err(Objection::invalid("ranges is empty: name at least one slot"));
    }
    if target.as_str().is_empty() {
        return Err(Objection::invalid("target_node_id is empty"));
    }
    let myself = myself(nodes)?;
    if myself.id == *target {
        return Err(Objection::invalid("target_node_id is this node itself"));
    }
    match myself.is_primary() {
        true => Ok(()),
        false => {
            Err(Objection::unsafe_because("this node is a replica: slots are moved by the primary that owns them"))
        }
    }
}

/// Those of the wanted slots that this node still owns; what the target owns already is done.
pub fn remaining(nodes: &ClusterNodes, target: &NodeId, wanted: &SlotSet) -> Result<SlotSet, Objection> {
    check(nodes, target, wanted)?;
    let (myself, target) = (myself(nodes)?, sound_primary(nodes, target)?);
    let foreign = wanted.difference(&myself.slots).difference(&target.slots);
    if let Some(slot) = foreign.iter().next() {
        let owner = nodes.owner_of(slot).map_or_else(|| "nobody".to_owned(), |owner| owner.id.to_string());
        return Err(Objection::unsafe_because(format!("slot {slot} is served by {owner}")));
    }
    Ok(wanted.intersection(&myself.slots))
}

fn sound_primary<'a>(nodes: &'a ClusterNodes, id: &NodeId) -> Result<&'a ClusterNode, Objection> {
    let Some(node) = nodes.find(id) else { return Err(Objection::unsafe_because(format!("{id} is not known here"))) };
    match (node.is_primary(), node.is_failing()) {
        (false, _) => Err(Objection::unsafe_because(format!("{id} is not a primary"))),
        (true, true) => Err(Objection::unsafe_because(format!("{id} is failing"))),
        (true, false) => Ok(node),
    }
}

/// Whether the target can take keys now. A key must not have fewer copies after the move than before, as far as they are wanted: the
/// target needs as many replicas in step, and one in full sync would hold its slots up as `importing`.
pub fn ready(id: &NodeId, target: &Target, here_ok: bool, here: Copies, wanted: usize) -> Result<(), Objection> {
    let needed = here.online.min(wanted);
    let itself = target.view.myself().is_some_and(|node| node.id == *id && node.is_primary());
    let obstacle = if !itself {
        Some(format!("{id} does not answer as a primary at its address"))
    } else if target.loading {
        Some(format!("{id} loads its data"))
    } else if !here_ok || !target.cluster_ok {
        Some("the cluster is not ok in the view of both ends".to_owned())
    } else if target.copies.in_full_sync > 0 {
        Some(format!("a replica of {id} is in full sync"))
    } else if target.copies.online < needed {
        Some(format!("{} replicas follow {id}, and it needs {needed} before it gets slots", target.copies.online))
    } else {
        None
    };
    obstacle.map_or(Ok(()), |reason| Err(Objection::NotNow(reason)))
}

/// `servers`: both primaries and all their replicas, for a replica of an older version would fall out of step.
pub fn way(servers: &[Server]) -> Way {
    let able = |server: &Server| {
        server.major_version.is_some_and(|version| version >= 9) && !server.modules && !server.open_slots
    };
    if servers.iter().all(able) { Way::Atomic } else { Way::KeyByKey }
}

/// The first of the slots, with as many keys as the limit allows; the very first whatever it holds. 0: no limit.
pub fn portion(counts: &[(u16, u64)], keys_at_most: u64) -> Portion {
    let (mut taken, mut keys) = (Vec::new(), 0);
    for (slot, count) in counts {
        if keys_at_most > 0 && !taken.is_empty() && keys + count > keys_at_most {
            break;
        }
        taken.push(topology::SlotRange::new(*slot, *slot));
        keys += count;
    }
    Portion { slots: SlotSet::of(taken).unwrap_or_default(), keys }
}

/// How many of the keys go in one MIGRATE, by their sizes.
pub fn batch(sizes: &[u64]) -> usize {
    let mut sum = 0_u64;
    let fit = sizes.iter().take(KEYS_AT_ONCE).take_while(|size| {
        sum = sum.saturating_add(**size);
        sum <= BYTES_AT_ONCE
    });
    fit.count().max(1)
}

/// For how long the other end may be silent during a MIGRATE; longer at each further attempt.
pub fn silence(bytes: u64, attempt: u32) -> Duration {
    let needed = Duration::from_secs(1) + Duration::from_secs(bytes / BYTES_IN_A_SECOND);
    needed * 2_u32.saturating_pow(attempt)
}

/// How a slot that stands open between this node and another is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The rest of its keys goes over.
    Finish,
    /// It stays here.
    TurnBack,
}

/// What the other end of an open slot answered.
#[derive(Clone, Debug)]
pub struct OtherEnd {
    pub view: ClusterNodes,
    /// How many keys of the slot it has.
    pub keys: u64,
}

/// An open slot is only turned back when the other end was asked and has none of its keys: while it is away it may have some, and
/// turned back their clients would be told that they do not exist.
pub fn close(nodes: &ClusterNodes, slot: u16, other: &NodeId, there: Option<&OtherEnd>) -> Result<Closing, Objection> {
    let Some(there) = there.filter(|there| there.view.myself().is_some_and(|node| node.id == *other)) else {
        return Err(Objection::NotNow(format!(
            "slot {slot} is half moved to {other}, which does not answer and may have keys of it"
        )));
    };
    let primary = there.view.myself().is_some_and(ClusterNode::is_primary);
    match (primary && sound_primary(nodes, other).is_ok(), there.keys) {
        (true, _) => Ok(Closing::Finish),
        (false, 0) => Ok(Closing::TurnBack),
        (false, keys) => Err(Objection::NotNow(format!(
            "slot {slot} is half moved to {other}, which has {keys} keys of it and is no sound primary"
        ))),
    }
}

#[cfg(test)]
#[path = "migrate_slots_tests.rs"]
mod tests;
