//! The shards as they are now, for the status: what the nodes say, and for those not heard what was last recorded. Pure.

use crate::deaths;
use crate::findings::in_sync;
use crate::ghosts;
use crate::picture::{Member, Picture, Standing};
use crate::record::{NodeWord, ShardNode, ShardStatus};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use topology::{NodeId, PodName, Role, ShardId, SlotSet};

/// Unchanged while the nodes have not said enough. The first record is made of a whole cluster.
pub(crate) fn shards(picture: &Picture, settled: bool) -> Vec<ShardStatus> {
    let owners = winners(picture);
    let covered = picture.owners().iter().fold(SlotSet::default(), |all, owner| all.union(&picture.slots(owner)));
    let first = picture.recorded.is_empty();
    if !settled || owners.is_empty() || first && !covered.is_all() {
        return picture.recorded.to_vec();
    }
    let continued = continued(picture, &owners);
    let mut ids = continued.values().map(|shard| shard.id.clone()).collect();
    let mut shards: Vec<ShardStatus> =
        owners.iter().map(|(id, slots)| shard(picture, id, slots, continued.get(id).copied(), &mut ids)).collect();
    keep_unplaced(picture, &mut shards);
    shards.sort_by_key(|shard| shard.slots.ranges().first().map(|range| range.first));
    shards
}

/// Owner → slots, each slot once. Of two that claim a slot, as an old primary does until it has learnt of its successor, the one
/// that was heard and has the higher epoch is right.
fn winners(picture: &Picture) -> BTreeMap<NodeId, SlotSet> {
    let mut claims: Vec<(NodeId, SlotSet)> = picture.ownership().into_iter().collect();
    claims.sort_by_key(|(id, _)| (!picture.map.heard(id), Reverse(picture.map.config_epoch(id))));
    let mut given = SlotSet::default();
    let mut owners = BTreeMap::new();
    for (id, claimed) in claims {
        let slots = claimed.difference(&given);
        given = given.union(&slots);
        if !slots.is_empty() {
            owners.insert(id, slots);
        }
    }
    owners
}

/// Which recorded shard each owner goes on with: the one it has the most slots of, and was in.
fn continued<'a>(picture: &Picture<'a>, owners: &BTreeMap<NodeId, SlotSet>) -> BTreeMap<NodeId, &'a ShardStatus> {
    let mut fits: Vec<(u32, bool, &NodeId, &ShardStatus)> = Vec::new();
    for shard in picture.recorded {
        for (id, slots) in owners.iter().filter(|(_, slots)| slots.overlaps(&shard.slots)) {
            let was_in = shard.nodes.iter().any(|node| node.node_id == *id);
            fits.push((slots.intersection(&shard.slots).count(), was_in, id, shard));
        }
    }
    fits.sort_by_key(|(overlap, was_in, ..)| Reverse((*overlap, *was_in)));
    let (mut continued, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for (_, _, id, shard) in fits {
        if !continued.contains_key(id) && taken.insert(&shard.id) {
            continued.insert(id.clone(), shard);
        }
    }
    continued
}

fn shard(
    picture: &Picture,
    id: &NodeId,
    slots: &SlotSet,
    before: Option<&ShardStatus>,
    taken: &mut BTreeSet<ShardId>,
) -> ShardStatus {
    let name = before.map_or_else(|| free_name(picture, taken), |shard| shard.id.clone());
    taken.insert(name.clone());
    let primary = picture.by_id(id);
    let heard = primary.and_then(|member| member.facts()).and_then(|facts| facts.replication_id.clone());
    let replication_id = heard.or_else(|| before.and_then(|shard| shard.replication_id.clone()));
    let mut nodes: Vec<ShardNode> = node(picture, id, Role::Primary).into_iter().collect();
    let replicas = picture.replicas_of(id);
    nodes.extend(
        replicas
            .iter()
            .filter(|member| member.belongs())
            .filter_map(|member| member.id().and_then(|id| node(picture, id, Role::Replica))),
    );
    ShardStatus { id: name, slots: slots.clone(), replication_id, nodes }
}

fn free_name(picture: &Picture, taken: &BTreeSet<ShardId>) -> ShardId {
    let used = |name: &ShardId| taken.contains(name) || picture.recorded.iter().any(|shard| shard.id == *name);
    (0..).map(|number| ShardId::new(format!("shard-{number}"))).find(|name| !used(name)).unwrap_or_default()
}

fn node(picture: &Picture, id: &NodeId, role: Role) -> Option<ShardNode> {
    let pod = picture.by_id(id).map(|member| member.name()).or_else(|| picture.recorded_pod(id))?;
    Some(ShardNode { pod: pod.clone(), node_id: id.clone(), role, state: word(picture, id, pod) })
}

fn word(picture: &Picture, id: &NodeId, pod: &PodName) -> NodeWord {
    let answering = picture.by_id(id);
    if let Some(member) = answering {
        let synced = member.is(Role::Primary) || in_sync(&member);
        return if synced { NodeWord::Online } else { NodeWord::Syncing };
    }
    let replaced = picture.by_name(pod).is_some_and(|member| member.id().is_some());
    match deaths::certain(picture, id) {
        _ if replaced => NodeWord::Lost,
        Some(_) => NodeWord::Down,
        None => NodeWord::Unknown,
    }
}

/// Recorded nodes that are in no shard now (silent, or replicas of a node that is gone) stay until forgotten: with those who have
/// their slots now, or by themselves.
fn keep_unplaced(picture: &Picture, shards: &mut Vec<ShardStatus>) {
    for recorded in picture.recorded {
        for unplaced in recorded.nodes.iter().filter(|node| !is_forgotten(picture, node)) {
            if shards.iter().any(|shard| shard.nodes.iter().any(|node| node.node_id == unplaced.node_id)) {
                continue;
            }
            let state = word(picture, &unplaced.node_id, &unplaced.pod);
            match home(recorded, shards) {
                Some(shard) => shard.nodes.push(ShardNode { role: Role::Replica, state, ..unplaced.clone() }),
                None => shards
                    .push(ShardStatus { nodes: vec![ShardNode { state, ..unplaced.clone() }], ..recorded.clone() }),
            }
        }
    }
}

fn home<'a>(recorded: &ShardStatus, shards: &'a mut [ShardStatus]) -> Option<&'a mut ShardStatus> {
    let position = shards.iter().position(|shard| shard.id == recorded.id);
    let position = position.or_else(|| shards.iter().position(|shard| shard.slots.overlaps(&recorded.slots)));
    shards.get_mut(position?)
}

/// Its pod runs another node and nobody knows it any more.
fn is_forgotten(picture: &Picture, node: &ShardNode) -> bool {
    ghosts::successor(picture, &node.node_id).is_some() && !picture.map.is_known(&node.node_id)
}

pub(crate) fn serving(picture: &Picture) -> BTreeSet<PodName> {
    let serves = |member: &&Member| {
        let whole = member.facts().is_some_and(|facts| facts.summary.state_ok);
        whole && (member.is(Role::Primary) || in_sync(member))
    };
    picture.members.iter().filter(serves).map(|member| member.name().clone()).collect()
}

/// Who gets which role label: the pod's own word, where it does not contradict another's with a higher epoch.
pub(crate) fn roles(picture: &Picture) -> BTreeMap<PodName, Role> {
    let conflicts = picture.map.conflicts();
    let beaten = |member: &Member| {
        conflicts.iter().any(|conflict| {
            let (one, two) = (picture.map.config_epoch(&conflict.one), picture.map.config_epoch(&conflict.two));
            let loser = if one < two { &conflict.one } else { &conflict.two };
            member.has_id(loser)
        })
    };
    let ours = picture.members.iter().filter(|member| member.standing == Standing::Ours && !beaten(member));
    let role = |member: &Member| match member.facts()?.role {
        Role::Replica => Some((member.name().clone(), Role::Replica)),
        Role::Primary if picture.slots(member).is_empty() => None,
        Role::Primary => Some((member.name().clone(), Role::Primary)),
    };
    ours.filter_map(role).collect()
}
