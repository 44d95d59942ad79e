//! Which nodes shall own the slots: those that do; with new ones beside them when more shards are asked for, and without some of them when
//! fewer are. Told anew at every look, so it has to come out the same until what it asks for is done. Pure.

use super::cluster_model::{ClusterModel, Member, Membership};
use super::join;
use super::open_slots;
use std::cmp::Reverse;
use topology::{Role, Site, spread};

/// As many as there shall be shards, or fewer while nodes for the others are missing.
pub(crate) fn primaries<'a>(model: &ClusterModel<'a>) -> Vec<Member<'a>> {
    model.primaries.get_or_init(|| choose(model)).clone()
}

fn choose<'a>(model: &ClusterModel<'a>) -> Vec<Member<'a>> {
    let mut owners = model.owners();
    let wanted = model.target.masters;
    if owners.len() < wanted && !model.recorded.is_empty() {
        return with_newcomers(model, &owners);
    }
    if owners.len() > wanted {
        owners.sort_by_key(|owner| Reverse(worth(model, owner)));
        owners.truncate(wanted);
    }
    owners
}

/// Every slot has an owner that answers.
pub(crate) fn is_served(model: &ClusterModel) -> bool {
    model.covered().is_all() && model.map.owners().keys().all(|id| model.by_id(id).is_some())
}

/// A node has no slots and is not one that shall have some.
pub(crate) fn is_spare(primaries: &[Member], member: &Member) -> bool {
    primaries.iter().all(|primary| primary.name() != member.name())
}

/// Shards stay whose pods stay; of equals those with the most slots, so that little moves and the choice is the same next time. A replica
/// that loses its link for a moment counts all the same.
fn worth(model: &ClusterModel, owner: &Member) -> (bool, usize, u32) {
    let replicas = owner.id().map(|id| model.replicas_of(id)).unwrap_or_default();
    let staying = replicas.iter().filter(|replica| replica.wanted).count();
    (owner.wanted, staying, model.slots(owner).count())
}

/// New primaries are chosen when all pods are there to choose from, and never while slots are without an owner: a new node may be
/// needed for those.
fn may_grow(model: &ClusterModel) -> bool {
    model.all_answer() && is_served(model)
}

/// What was begun with stays, whoever is away for a while: it has its replicas already, or keys of a half-moved slot.
fn with_newcomers<'a>(model: &ClusterModel<'a>, owners: &[Member<'a>]) -> Vec<Member<'a>> {
    let newcomers = model.members.iter().filter(|member| is_spare(owners, member) && is_able(model, member));
    let newcomers: Vec<Member> = newcomers.copied().collect();
    let mut begun: Vec<Member> = newcomers.iter().filter(|member| is_begun(model, member)).copied().collect();
    begun.sort_by_key(|member| Reverse(open_slots::has_half(model, member)));
    begun.truncate(model.target.masters.saturating_sub(owners.len()));
    let mut settled: Vec<Member> = owners.iter().chain(&begun).copied().collect();
    settled.sort_by_key(|member| (member.name().ordinal(), member.name()));
    if !may_grow(model) {
        return settled;
    }
    let site = |member: &Member, primary: bool| Site {
        pod: member.name().clone(),
        location: member.pod.location.clone(),
        primary,
        replica_of: None,
    };
    let free = newcomers.iter().filter(|member| is_spare(&settled, member));
    let sites = settled.iter().map(|member| site(member, true)).chain(free.map(|member| site(member, false)));
    let chosen = spread(&sites.collect::<Vec<_>>(), model.target.masters);
    chosen.iter().filter_map(|name| model.by_name(name)).collect()
}

/// It has nothing but what was half moved to it, follows nobody and is not told to.
fn is_able(model: &ClusterModel, member: &Member) -> bool {
    let Some(facts) = member.facts() else { return false };
    let ours = matches!(member.membership, Membership::Fresh | Membership::Ours);
    let has_nothing = facts.keys == 0 || open_slots::has_half(model, member);
    let empty = facts.role == Role::Primary && facts.summary.slots_mine == 0 && has_nothing;
    let free = join::commanded_primary(member).is_none() && model.map.attributed(&facts.node_id).is_empty();
    member.wanted && !member.pod.terminating && ours && empty && free
}

/// Replicas were given to it already, or are being, or a slot is half moved to it.
fn is_begun(model: &ClusterModel, member: &Member) -> bool {
    let Some(id) = member.id() else { return false };
    let told = model.members.iter().any(|other| join::commanded_primary(other) == Some(id));
    told || !model.replicas_of(id).is_empty() || open_slots::has_half(model, member)
}
