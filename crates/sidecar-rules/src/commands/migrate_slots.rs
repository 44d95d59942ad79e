//! MigrateSlots: slots of this primary go to another one, with their keys.

use super::{Objection, myself};
use std::{ops::RangeInclusive, time::Duration};
use topology::{ClusterNode, ClusterNodes, NodeId, SlotSet};

/// A MIGRATE holds up both servers: so much in one go takes some milliseconds.
const BYTES_AT_ONCE: u64 = 1024 * 1024;
const KEYS_AT_ONCE: usize = 128;
/// How slow the other server may be with a huge key.
const BYTES_IN_A_SECOND: u64 = 4 * 1024 * 1024;

/// With more than one I/O thread their migrations never end while clients write (valkey-io/valkey#4545).
const SLOW_WITH_IO_THREADS: RangeInclusive<(u16, u16, u16)> = (9, 0, 5)..=(9, 1, 1);
/// Open at the same time, key by key.
pub const SLOTS_AT_ONCE: usize = 128;
/// A slot is open as long as its neighbours of the same batch take.
pub const LONGEST_BATCH: Duration = Duration::from_millis(250);
const BATCH_KEYS: u64 = 2_000;
const BATCH_BYTES: u64 = 8 * 1024 * 1024;

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
    /// Where Valkey cannot: see `way`.
    KeyByKey,
}

/// What decides about the way, of one of the servers that take part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Major, minor and patch; `None` when it says none that can be read.
    pub version: Option<(u16, u16, u16)>,
    pub io_threads: u64,
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

/// `servers`: both primaries and the replicas that follow them, for one of an older version would fall out of step. Valkey refuses it
/// for modules, and while any slot is open. `in_vain`: Valkey gave up the last ones to this target.
pub fn way(servers: &[Server], in_vain: bool) -> Way {
    let able = |server: &Server| {
        let version = server.version.is_some_and(|version| {
            version >= (9, 0, 0) && (server.io_threads <= 1 || !SLOW_WITH_IO_THREADS.contains(&version))
        });
        version && !server.modules && !server.open_slots
    };
    if !in_vain && servers.iter().all(able) { Way::Atomic } else { Way::KeyByKey }
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

/// How many keys a batch of slots may have, by the average size of one.
pub fn keys_at_once(dataset_bytes: u64, keys: u64) -> u64 {
    (BATCH_BYTES / (dataset_bytes / keys.max(1)).max(1)).clamp(1, BATCH_KEYS)
}

/// So many slots at once from now on, after `taken` of them took so long.
pub fn next_batch(before: usize, taken: usize, took: Duration) -> usize {
    if took > LONGEST_BATCH { (taken / 2).max(1) } else { before }
}

/// How one MIGRATE is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// For how long the other end may be silent. So long this node serves nobody.
    pub silence: Duration,
    /// Once more at once when it was silent.
    pub twice: bool,
}

/// Together the two tries stay well below the time after which others take a silent node for failed. A huge key needs its time, and gets
/// one try.
pub fn sending(bytes: u64, node_timeout: Duration) -> Sending {
    match bytes <= BYTES_AT_ONCE {
        true => Sending { silence: Duration::from_secs(1).min(node_timeout / 4), twice: true },
        false => {
            let silence = Duration::from_secs(1) + Duration::from_secs(bytes / BYTES_IN_A_SECOND);
            Sending { silence, twice: false }
        }
    }
}

/// Whether an empty open slot can be given to the target now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handing {
    Ready,
    /// The target owns it already.
    Done,
}

/// Asked of both ends between the last look at the slot's keys and the moment when the target takes it. A replica that took over here
/// may have keys that had gone to the target before, and has acknowledged writes to them: the target knows its new source then.
pub fn handing(here: &ClusterNodes, there: &ClusterNodes, target: &NodeId, slot: u16) -> Result<Handing, Objection> {
    let myself = myself(here)?;
    let not_now = |why: String| Err(Objection::NotNow(format!("slot {slot} stays open: {why}")));
    let Some(other) = there.myself().filter(|node| node.id == *target && node.is_primary()) else {
        return not_now(format!("{target} is no primary any more"));
    };
    if other.owns(slot) {
        return Ok(Handing::Done);
    }
    let open = |node: &ClusterNode, to: &NodeId, importing| {
        node.moves.iter().any(|open| open.slot == slot && open.other == *to && open.importing == importing)
    };
    if !open(other, &myself.id, true) || there.owner_of(slot).is_none_or(|owner| owner.id != myself.id) {
        return not_now(format!("{target} does not expect it from this node any more"));
    }
    if !myself.is_primary() || !myself.owns(slot) || !open(myself, target, false) {
        return not_now(format!("this node does not own it any more, or does not give it to {target}"));
    }
    Ok(Handing::Ready)
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
pub struct FarEnd {
    pub view: ClusterNodes,
    /// How many keys of the slot it has.
    pub keys: u64,
}

/// What a human can do when the other end of an open slot does not come back.
pub fn way_out(slot: u16, other: &NodeId) -> String {
    format!(
        "if {other} never returns, give up what it had: CLUSTER SETSLOT {slot} STABLE here; keys of the slot that only it has are lost then"
    )
}

/// An open slot is only turned back when the other end was asked and has none of its keys: while it is away it may have some, and
/// turned back their clients would be told that they do not exist. `asked_for`: it is to go there; or this node was told of it.
pub fn close(
    nodes: &ClusterNodes,
    slot: u16,
    other: &NodeId,
    there: Option<&FarEnd>,
    asked_for: bool,
) -> Result<Closing, Objection> {
    let Some(there) = there.filter(|there| there.view.myself().is_some_and(|node| node.id == *other)) else {
        return Err(Objection::NotNow(format!(
            "slot {slot} is half moved to {other}, which does not answer and may have keys of it; {}",
            way_out(slot, other)
        )));
    };
    let primary = there.view.myself().is_some_and(ClusterNode::is_primary);
    match (primary && sound_primary(nodes, other).is_ok(), there.keys) {
        (true, 0) if !asked_for => Ok(Closing::TurnBack),
        (true, _) => Ok(Closing::Finish),
        (false, 0) => Ok(Closing::TurnBack),
        (false, keys) => Err(Objection::NotNow(format!(
            "slot {slot} is half moved to {other}, which has {keys} keys of it and is no sound primary; {}",
            way_out(slot, other)
        ))),
    }
}

#[cfg(test)]
#[path = "migrate_slots_tests.rs"]
mod tests;
