//! Nodes without a shard become replicas of the shards that lack one. Pure.

use super::action::{Action, PodCommand};
use super::cluster_model::{ClusterModel, Member, Membership};
use super::findings::in_sync;
use super::mesh;
use super::open_slots;
use super::primaries::{is_served, is_spare, primaries};
use super::proposal::command;
use super::{scale, views};
use topology::{Location, NodeId, Role, shard_for};

/// A node and the primary it shall follow.
#[derive(Clone, Copy)]
pub(crate) struct Pairing<'a> {
    pub replica: Member<'a>,
    pub primary: Member<'a>,
}

/// A shard that nodes may join.
struct Home<'a> {
    primary: Member<'a>,
    /// Where those run that count: in a shard that stays, only pods that stay.
    places: Vec<Location>,
    stays: bool,
}

/// Who joins which shard. Nobody joins before every shard has its owner.
pub(crate) fn pairings<'a>(model: &ClusterModel<'a>) -> Vec<Pairing<'a>> {
    if !is_served(model) {
        return Vec::new();
    }
    let primaries = primaries(model);
    let mut homes: Vec<Home> = primaries.iter().map(|primary| staying(model, primary)).collect();
    let has_data = |member: &&Member| !model.slots(member).is_empty() || open_slots::has_half(model, member);
    let belonging = model.belonging();
    let others = belonging.iter().filter(has_data).filter(|owner| is_spare(&primaries, owner));
    homes.extend(others.map(|owner| leaving(model, owner)));
    let mut pairings = Vec::new();
    let mut joining = unattached(model, &primaries);
    joining.extend(surplus(model, &primaries));
    joining.retain(at_rest(model));
    joining.sort_by_key(|replica| commanded_primary(replica).is_none());
    for replica in joining {
        let home = choose(model, &replica, &homes).and_then(|index| homes.get_mut(index));
        if let Some(home) = home {
            home.places.push(replica.pod.location.clone());
            pairings.push(Pairing { replica, primary: home.primary });
        }
    }
    pairings.extend(stand_ins(model, &primaries, &pairings));
    pairings
}

/// While slots have yet to come from pods that go, a shard that stays and lacks a copy gets one from an idle node that goes too: the
/// replica that is to follow it in the end may be the copy of those slots until they have moved.
fn stand_ins<'a>(model: &ClusterModel<'a>, primaries: &[Member<'a>], pairings: &[Pairing<'a>]) -> Vec<Pairing<'a>> {
    let drained = model.owners().iter().any(|owner| is_spare(primaries, owner));
    let is_clear = model.all_answer() && model.map.agrees() && views::missing(model).is_empty();
    if !drained || !is_clear {
        return Vec::new();
    }
    let at_rest = at_rest(model);
    let goes = |member: &&Member| !member.wanted && !member.pod.terminating && member.membership == Membership::Ours;
    let idle = |member: &&Member| member.is(Role::Primary) && is_unattached(model, primaries, member);
    let lacks = |primary: &&Member<'a>| {
        let comes = pairings.iter().filter(|pair| pair.primary.name() == primary.name());
        replicas(model, primary).len() + comes.count() < model.target.replicas_per_master
    };
    let idle = model.members.iter().filter(goes).filter(idle).filter(|member| at_rest(member));
    primaries
        .iter()
        .filter(lacks)
        .zip(idle)
        .map(|(primary, idle)| Pairing { replica: *idle, primary: *primary })
        .collect()
}

/// Neither it nor its primary has a part in a move.
fn at_rest<'a>(model: &ClusterModel<'a>) -> impl Fn(&Member<'a>) -> bool + use<'a> {
    let engaged = scale::engaged(model);
    move |one| {
        let moves = |id: Option<&NodeId>| id.is_some_and(|id| engaged.contains(id));
        !moves(one.id()) && !moves(one.facts().and_then(|facts| facts.primary.as_ref()))
    }
}

/// Replicas that stay, of which their shards have too many and which no other shard lacks.
pub(crate) fn unneeded<'a>(model: &ClusterModel<'a>) -> Vec<Member<'a>> {
    let needed = pairings(model);
    let mut unneeded = surplus(model, &primaries(model));
    unneeded.retain(at_rest(model));
    unneeded.retain(|member| needed.iter().all(|pair| pair.replica.name() != member.name()));
    unneeded
}

/// A copy of this primary's data that is in step, and neither ends nor was told to go elsewhere.
pub(crate) fn is_kept_copy(replica: &Member, primary: &Member) -> bool {
    let goes = replica.pod.under_way.iter().any(|action| match action {
        Action::Leave => true,
        Action::Replicate(id) => !primary.has_id(id),
        _ => false,
    });
    in_sync(replica) && !replica.pod.terminating && !goes
}

/// Whom it is being told to follow: it goes there whatever else would be as good, or two would end up in one place.
pub(crate) fn commanded_primary<'a>(member: &Member<'a>) -> Option<&'a NodeId> {
    member.pod.under_way.iter().find_map(|action| match action {
        Action::Replicate(id) => Some(id),
        _ => None,
    })
}

fn staying<'a>(model: &ClusterModel<'a>, primary: &Member<'a>) -> Home<'a> {
    let members = [*primary].into_iter().chain(replicas(model, primary));
    let places = members.filter(|member| member.wanted).map(|member| member.pod.location.clone()).collect();
    Home { primary: *primary, places, stays: true }
}

/// As long as it has slots its data shall have its copies.
fn leaving<'a>(model: &ClusterModel<'a>, owner: &Member<'a>) -> Home<'a> {
    let members = [*owner].into_iter().chain(replicas(model, owner));
    Home { primary: *owner, places: members.map(|member| member.pod.location.clone()).collect(), stays: false }
}

/// Of two pods that say they are the same node, neither counts.
fn replicas<'a>(model: &ClusterModel<'a>, primary: &Member) -> Vec<Member<'a>> {
    let mut replicas = primary.id().map(|id| model.replicas_of(id)).unwrap_or_default();
    replicas.retain(|replica| replica.membership != Membership::Duplicate);
    replicas
}

/// Replicas that a shard has too many of, as when two pods were replaced at once. Those that stay follow without a gap, and
/// nobody moves while a pod may only be on its way back.
fn surplus<'a>(model: &ClusterModel<'a>, primaries: &[Member<'a>]) -> Vec<Member<'a>> {
    let spare = |primary: &Member| {
        // A primary whose pod goes is succeeded by one of them.
        let kept = model.target.replicas_per_master + usize::from(!primary.wanted);
        let mut replicas = replicas(model, primary);
        replicas.retain(|replica| replica.wanted);
        replicas.sort_by_key(|replica| !is_kept_copy(replica, primary));
        let safe = replicas.iter().take(kept).all(|replica| is_kept_copy(replica, primary));
        if safe { replicas.split_off(kept.min(replicas.len())) } else { Vec::new() }
    };
    if model.all_answer() { primaries.iter().flat_map(spare).collect() } else { Vec::new() }
}

/// Nodes of ours that own nothing and shall own nothing, hold nothing and follow nobody who owns something.
fn unattached<'a>(model: &ClusterModel<'a>, primaries: &[Member<'a>]) -> Vec<Member<'a>> {
    let joins = |member: &&Member| member.wanted && is_unattached(model, primaries, member);
    model.members.iter().filter(joins).copied().collect()
}

fn is_unattached(model: &ClusterModel, primaries: &[Member], member: &Member) -> bool {
    let Some(facts) = member.facts().filter(|_| is_spare(primaries, member)) else { return false };
    let nothing_attributed = model.map.attributed(&facts.node_id).is_empty();
    match (member.membership, facts.role) {
        (Membership::Fresh, _) => true,
        (Membership::Ours, Role::Primary) => {
            let empty = facts.keys == 0 && facts.summary.slots_mine == 0 && nothing_attributed;
            empty && !open_slots::may_hold_keys(model, &facts.node_id)
        }
        (Membership::Ours, Role::Replica) => follows_nothing(model, primaries, member),
        _ => false,
    }
}

/// Its primary owns no slot in anybody's eyes, is not about to and got no keys of one: its data is nobody's any more.
fn follows_nothing(model: &ClusterModel, primaries: &[Member], member: &Member) -> bool {
    let primary = member.facts().and_then(|facts| facts.primary.as_ref());
    let is_new = |id: &NodeId| primaries.iter().any(|primary| primary.has_id(id));
    let is_nobodys = |id| model.map.attributed(id).is_empty() && !open_slots::may_hold_keys(model, id);
    primary.is_some_and(|id| !is_new(id) && is_nobodys(id)) && model.map.unassigned().is_empty()
}

/// The shard it is on its way to, the one it was in when that lacks a replica, else the one it helps most.
fn choose(model: &ClusterModel, replica: &Member, homes: &[Home]) -> Option<usize> {
    if let Some(id) = commanded_primary(replica) {
        return homes.iter().position(|home| home.primary.has_id(id));
    }
    let is_open = |home: &Home| home.places.len() < 1 + model.target.replicas_per_master;
    let before = model.recorded.iter().find(|shard| shard.nodes.iter().any(|node| node.pod == *replica.name()));
    let of_before = |home: &Home| before.is_some_and(|shard| shard.slots.overlaps(&model.slots(&home.primary)));
    let earlier = homes.iter().position(of_before);
    if earlier.and_then(|index| homes.get(index)).is_some_and(is_open) {
        return earlier;
    }
    helped_most(replica, homes, |home| home.stays && is_open(home)).or_else(|| helped_most(replica, homes, is_open))
}

fn helped_most(replica: &Member, homes: &[Home], such: impl Fn(&Home) -> bool) -> Option<usize> {
    let open = homes.iter().enumerate().filter(|(_, home)| such(home));
    let (open, places): (Vec<usize>, Vec<Vec<Location>>) =
        open.map(|(index, home)| (index, home.places.clone())).unzip();
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
