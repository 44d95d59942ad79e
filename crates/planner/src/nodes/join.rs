//! Nodes without a shard become replicas of the shards that lack one. Pure.

use super::action::{Action, PodCommand};
use super::cluster_model::{ClusterModel, Member, Membership};
use super::findings::in_sync;
use super::mesh;
use super::proposal::command;
use topology::{Location, NodeId, Role, shard_for};

/// A node and the primary it shall follow.
#[derive(Clone, Copy)]
pub(crate) struct Pairing<'a> {
    pub replica: Member<'a>,
    pub primary: Member<'a>,
}

/// Who joins which shard. Nobody joins before every shard has its owner and the number of shards is as wanted.
pub(crate) fn pairings<'a>(model: &ClusterModel<'a>) -> Vec<Pairing<'a>> {
    let owners = model.owners();
    if owners.len() != model.target.masters || !model.map.owners().keys().all(|id| model.by_id(id).is_some()) {
        return Vec::new();
    }
    let mut shards: Vec<Vec<Location>> = owners.iter().map(|owner| locations(model, owner)).collect();
    let mut pairings = Vec::new();
    let mut joining = unattached(model);
    joining.extend(surplus(model, &owners));
    joining.sort_by_key(|replica| commanded_primary(replica).is_none());
    for replica in joining {
        let Some(index) = choose(model, &replica, &owners, &shards) else { continue };
        if let (Some(primary), Some(shard)) = (owners.get(index), shards.get_mut(index)) {
            shard.push(replica.pod.location.clone());
            pairings.push(Pairing { replica, primary: *primary });
        }
    }
    pairings
}

/// Whom it is being told to follow: it goes there whatever else would be as good, or two would end up in one place.
pub(crate) fn commanded_primary<'a>(member: &Member<'a>) -> Option<&'a NodeId> {
    member.pod.under_way.iter().find_map(|action| match action {
        Action::Replicate(id) => Some(id),
        _ => None,
    })
}

/// Where the members of a shard are, the primary first.
fn locations(model: &ClusterModel, owner: &Member) -> Vec<Location> {
    let replicas = owner.id().map(|id| model.replicas_of(id)).unwrap_or_default();
    [owner].into_iter().chain(&replicas).map(|member| member.pod.location.clone()).collect()
}

/// Replicas that a shard has too many of, as when two pods were replaced at once. Those that stay follow without a gap, and
/// nobody moves while a pod may only be on its way back.
fn surplus<'a>(model: &ClusterModel<'a>, owners: &[Member<'a>]) -> Vec<Member<'a>> {
    let kept = model.target.replicas_per_master;
    let of = |owner: &Member| owner.id().map(|id| model.replicas_of(id)).unwrap_or_default();
    let spare = |mut replicas: Vec<Member<'a>>| {
        replicas.sort_by_key(|replica| !in_sync(replica));
        let safe = replicas.iter().take(kept).all(in_sync);
        if safe { replicas.split_off(kept.min(replicas.len())) } else { Vec::new() }
    };
    if model.all_answer() { owners.iter().flat_map(|owner| spare(of(owner))).collect() } else { Vec::new() }
}

/// Nodes of ours that own nothing, hold nothing and follow nobody who owns something.
fn unattached<'a>(model: &ClusterModel<'a>) -> Vec<Member<'a>> {
    model.members.iter().filter(|member| member.wanted && is_unattached(model, member)).copied().collect()
}

fn is_unattached(model: &ClusterModel, member: &Member) -> bool {
    let Some(facts) = member.facts() else { return false };
    let nothing_attributed = model.map.attributed(&facts.node_id).is_empty();
    match (member.membership, facts.role) {
        (Membership::Fresh, _) => true,
        (Membership::Ours, Role::Primary) => facts.keys == 0 && facts.summary.slots_mine == 0 && nothing_attributed,
        (Membership::Ours, Role::Replica) => follows_nothing(model, member),
        _ => false,
    }
}

/// Its primary owns no slot in anybody's eyes: its data is nobody's any more.
fn follows_nothing(model: &ClusterModel, member: &Member) -> bool {
    let primary = member.facts().and_then(|facts| facts.primary.as_ref());
    primary.is_some_and(|id| model.map.attributed(id).is_empty()) && model.map.unassigned().is_empty()
}

/// The shard it is on its way to, the one it was in when that lacks a replica, else the one it helps most.
fn choose(model: &ClusterModel, replica: &Member, owners: &[Member], shards: &[Vec<Location>]) -> Option<usize> {
    if let Some(id) = commanded_primary(replica) {
        return owners.iter().position(|owner| owner.has_id(id));
    }
    let full = 1 + model.target.replicas_per_master;
    let before = model.recorded.iter().find(|shard| shard.nodes.iter().any(|node| node.pod == *replica.name()));
    let of_before = |owner: &Member| before.is_some_and(|shard| shard.slots.overlaps(&model.slots(owner)));
    let earlier = owners.iter().position(of_before);
    if earlier.and_then(|index| shards.get(index)).is_some_and(|shard| shard.len() < full) {
        return earlier;
    }
    let open: Vec<usize> =
        (0..shards.len()).filter(|index| shards.get(*index).is_some_and(|s| s.len() < full)).collect();
    let places: Vec<Vec<Location>> = open.iter().filter_map(|index| shards.get(*index).cloned()).collect();
    shard_for(&replica.pod.location, &places).and_then(|index| open.get(index).copied())
}

/// Every replica that knows its primary is told to follow it.
pub(crate) fn commands(pairings: &[Pairing], everybody: usize) -> Vec<PodCommand> {
    let able = pairings.iter().filter(|pair| mesh::knows(&pair.replica, &pair.primary, everybody));
    let follow = |pair: &Pairing| {
        let id = pair.primary.id()?.clone();
        Some(command(&pair.replica, Action::Replicate(id)))
    };
    able.filter_map(follow).collect()
}
