//! The shards as they are now, for the status: what the nodes say, and for those not heard what was last recorded. Pure.

use super::cluster_model::{ClusterModel, Member, Membership};
use super::departed;
use super::findings::in_sync;
use super::node_failures;
use super::record::{NodeState, Shard, ShardNode};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use topology::{NodeId, PodName, Role, ShardId, SlotSet};

/// Unchanged while the nodes have not said enough. The first record is made of a whole cluster.
pub(crate) fn shards(model: &ClusterModel, settled: bool) -> Vec<Shard> {
    let owners = winners(model);
    let covered = model.owners().iter().fold(SlotSet::default(), |all, owner| all.union(&model.slots(owner)));
    let first = model.recorded.is_empty();
    if !settled || owners.is_empty() || first && !covered.is_all() {
        return model.recorded.to_vec();
    }
    let continued = continued(model, &owners);
    let mut ids = continued.values().map(|shard| shard.id.clone()).collect();
    let mut shards: Vec<Shard> =
        owners.iter().map(|(id, slots)| shard(model, id, slots, continued.get(id).copied(), &mut ids)).collect();
    keep_unplaced(model, &mut shards);
    shards.sort_by_key(|shard| shard.slots.ranges().first().map(|range| range.first));
    shards
}

/// Owner → slots, each slot once. Of two that claim a slot, as an old primary does until it has learnt of its successor, the one
/// that was heard and has the higher epoch is right.
fn winners(model: &ClusterModel) -> BTreeMap<NodeId, SlotSet> {
    let mut claims: Vec<(NodeId, SlotSet)> = model.ownership().into_iter().collect();
    claims.sort_by_key(|(id, _)| (!model.map.heard(id), Reverse(model.map.config_epoch(id))));
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

/// Which recorded shard each owner goes on with: the one it was in, else the one it has the most slots of.
fn continued<'a>(model: &ClusterModel<'a>, owners: &BTreeMap<NodeId, SlotSet>) -> BTreeMap<NodeId, &'a Shard> {
    let mut fits: Vec<(u32, bool, &NodeId, &Shard)> = Vec::new();
    for shard in model.recorded {
        for (id, slots) in owners.iter().filter(|(_, slots)| slots.overlaps(&shard.slots)) {
            let was_in = shard.nodes.iter().any(|node| node.node_id == *id);
            fits.push((slots.intersection(&shard.slots).count(), was_in, id, shard));
        }
    }
    fits.sort_by_key(|(overlap, was_in, ..)| Reverse((*was_in, *overlap)));
    let (mut continued, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for (_, _, id, shard) in fits {
        if !continued.contains_key(id) && taken.insert(&shard.id) {
            continued.insert(id.clone(), shard);
        }
    }
    continued
}

fn shard(
    model: &ClusterModel,
    id: &NodeId,
    slots: &SlotSet,
    before: Option<&Shard>,
    taken: &mut BTreeSet<ShardId>,
) -> Shard {
    let name = before.map_or_else(|| free_name(model, taken), |shard| shard.id.clone());
    taken.insert(name.clone());
    let primary = model.by_id(id);
    let heard = primary.and_then(|member| member.facts()).and_then(|facts| facts.replication_id.clone());
    let replication_id = heard.or_else(|| before.and_then(|shard| shard.replication_id.clone()));
    let mut nodes: Vec<ShardNode> = node(model, id, Role::Primary).into_iter().collect();
    let replicas = model.replicas_of(id);
    nodes.extend(
        replicas
            .iter()
            .filter(|member| member.belongs())
            .filter_map(|member| member.id().and_then(|id| node(model, id, Role::Replica))),
    );
    Shard { id: name, slots: slots.clone(), replication_id, nodes }
}

fn free_name(model: &ClusterModel, taken: &BTreeSet<ShardId>) -> ShardId {
    let used = |name: &ShardId| taken.contains(name) || model.recorded.iter().any(|shard| shard.id == *name);
    (0..).map(|number| ShardId::new(format!("shard-{number}"))).find(|name| !used(name)).unwrap_or_default()
}

fn node(model: &ClusterModel, id: &NodeId, role: Role) -> Option<ShardNode> {
    let here = model.by_id(id).map(|member| (member.name(), Some(&member.pod.uid)));
    let recorded = || model.recorded_node(id).map(|node| (&node.pod, node.pod_uid.as_ref()));
    let (pod, uid) = here.or_else(recorded)?;
    let state = state_of(model, id, pod);
    Some(ShardNode { pod: pod.clone(), pod_uid: uid.cloned(), node_id: id.clone(), role, state })
}

fn state_of(model: &ClusterModel, id: &NodeId, pod: &PodName) -> NodeState {
    let answering = model.by_id(id);
    if let Some(member) = answering {
        let synced = member.is(Role::Primary) || in_sync(&member);
        return if synced { NodeState::Online } else { NodeState::Syncing };
    }
    let replaced = model.by_name(pod).is_some_and(|member| member.id().is_some());
    match node_failures::certain(model, id) {
        _ if replaced => NodeState::Lost,
        Some(_) => NodeState::Down,
        None if departed::was_lost(model, id) => NodeState::Lost,
        None => NodeState::Unknown,
    }
}

/// Recorded nodes that are in no shard now (silent, or replicas of a node that is gone) stay until forgotten: with those who have
/// their slots now, or by themselves. A shard that is lost stays until its slots have an owner: the cluster has not become smaller.
fn keep_unplaced(model: &ClusterModel, shards: &mut Vec<Shard>) {
    for recorded in model.recorded {
        let taken_over = shards.iter().any(|shard| shard.slots.overlaps(&recorded.slots));
        for unplaced in recorded.nodes.iter().filter(|node| !(taken_over && is_forgotten(model, node))) {
            if shards.iter().any(|shard| shard.nodes.iter().any(|node| node.node_id == unplaced.node_id)) {
                continue;
            }
            let state = state_of(model, &unplaced.node_id, &unplaced.pod);
            match home(recorded, shards) {
                Some(shard) => shard.nodes.push(ShardNode { role: Role::Replica, state, ..unplaced.clone() }),
                None => shards.push(Shard { nodes: vec![ShardNode { state, ..unplaced.clone() }], ..recorded.clone() }),
            }
        }
    }
}

fn home<'a>(recorded: &Shard, shards: &'a mut [Shard]) -> Option<&'a mut Shard> {
    let position = shards.iter().position(|shard| shard.id == recorded.id);
    let position = position.or_else(|| shards.iter().position(|shard| shard.slots.overlaps(&recorded.slots)));
    shards.get_mut(position?)
}

/// Its pod runs another node, or did, and nobody knows it any more.
fn is_forgotten(model: &ClusterModel, node: &ShardNode) -> bool {
    let id = &node.node_id;
    let replaced = departed::successor(model, id).is_some() || departed::was_lost(model, id);
    replaced && !model.map.is_known(id)
}

pub(crate) fn serving(model: &ClusterModel) -> BTreeSet<PodName> {
    let serves = |member: &&Member| {
        let whole = member.facts().is_some_and(|facts| facts.summary.state_ok);
        whole && (member.is(Role::Primary) || in_sync(member))
    };
    model.members.iter().filter(serves).map(|member| member.name().clone()).collect()
}

/// Who gets which role label: the pod's own word, where it does not contradict another's with a higher epoch.
pub(crate) fn roles(model: &ClusterModel) -> BTreeMap<PodName, Role> {
    let conflicts = model.map.conflicts();
    let beaten = |member: &Member| {
        conflicts.iter().any(|conflict| {
            let (one, two) = (model.map.config_epoch(&conflict.one), model.map.config_epoch(&conflict.two));
            let loser = if one < two { &conflict.one } else { &conflict.two };
            member.has_id(loser)
        })
    };
    let ours = model.members.iter().filter(|member| member.membership == Membership::Ours && !beaten(member));
    let role = |member: &Member| match member.facts()?.role {
        Role::Replica => Some((member.name().clone(), Role::Replica)),
        Role::Primary if model.slots(member).is_empty() => None,
        Role::Primary => Some((member.name().clone(), Role::Primary)),
    };
    ours.filter_map(role).collect()
}
