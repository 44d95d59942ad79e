//! Form: new, empty nodes become a cluster. Derived from what the nodes say at every look, so it goes on from wherever it was
//! interrupted: slots that are assigned and replicas that follow stay. Pure.

use super::action::{Action, PodCommand};
use super::cluster_model::{ClusterModel, Member, Membership};
use super::join::{self, Pairing};
use super::limits::{age, listed};
use super::mesh;
use super::proposal::{Proposal, command};
use super::record::{OrchestrationKind, Stage};
use super::{departed, findings, gates, repair};
use api::conditions::Reason;
use topology::{Role, ShardPlan, Site, SlotSet, even, place};

pub(crate) fn propose(model: &ClusterModel) -> Option<Proposal> {
    if !applies(model) {
        return None;
    }
    let obstacles = obstacles(model);
    if !obstacles.is_empty() {
        return Some(Proposal::blocked(OrchestrationKind::Form, Stage::AwaitPods, obstacles));
    }
    if let Some(opened) = gates::opened(model, OrchestrationKind::Form) {
        return Some(opened);
    }
    let all_given = model.map.unassigned().is_empty();
    if !model.all_answer() || !all_given && model.members.iter().any(|member| member.facts().is_none()) {
        return Some(await_pods(model));
    }
    if !all_given && model.members.iter().any(|member| member.pod.zone_awaited) {
        let waits = vec!["the zones of the Kubernetes nodes to be looked up".to_owned()];
        return Some(Proposal::waiting(OrchestrationKind::Form, Stage::AwaitPods, waits));
    }
    let plan = plan(model);
    give_back(model).or_else(|| assign(model, &plan)).or_else(|| connect(model, &plan)).or_else(|| verify(model))
}

/// Nothing is on record, and no node knows one that is gone.
pub(crate) fn applies(model: &ClusterModel) -> bool {
    model.recorded.is_empty() && (departed::unknown_ids(model).is_empty() || !model.all_answer())
}

/// A pod that the spec does not ask for any more may own slots all the same: none are given away before it has spoken.
fn await_pods(model: &ClusterModel) -> Proposal {
    let silent = |member: &&Member| member.facts().is_none();
    let mut names = model.unheard();
    names.extend(model.members.iter().filter(silent).map(|member| member.pod.name.clone()));
    names.sort();
    names.dedup();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let pods = model.target.pods().max(model.members.len());
    let waits = vec![format!("all {pods} Valkeys to answer; not yet: {}", listed(&names))];
    let commands = introductions_of_those_there(model);
    Proposal {
        stuck: commands.is_empty(),
        commands,
        ..Proposal::waiting(OrchestrationKind::Form, Stage::AwaitPods, waits)
    }
}

/// With every slot given away there is a cluster, and one of its primaries may be what is missing: whoever votes for a successor
/// has to know the candidates. New nodes come later: two that met only each other would look like another cluster. Nor is anybody
/// introduced over the head of a node that has yet to tell what it sees: its slots might be another's too.
fn introductions_of_those_there(model: &ClusterModel) -> Vec<PodCommand> {
    if model.members.iter().any(Member::is_mute) {
        return Vec::new();
    }
    let there = |member: &Member| takes_part(model, member) && !member.alone();
    let group = around_the_best_known(model.belonging().into_iter().filter(there).collect());
    let introductions = mesh::introductions(model, &group).filter(|_| model.map.unassigned().is_empty());
    introductions.map(|(_, commands)| commands).unwrap_or_default()
}

/// Pods that the spec does not ask for any more may be a part of the cluster all the same: their volumes were kept, or they were met already.
/// They leave when it is formed.
fn takes_part(model: &ClusterModel, member: &Member) -> bool {
    member.wanted || !model.slots(member).is_empty() || member.is(Role::Replica) || !member.alone()
}

/// While a pod is away nothing proves that two groups of nodes are one cluster: only those that share an acquaintance meet.
fn around_the_best_known(mut group: Vec<Member>) -> Vec<Member> {
    let knows = |member: &Member, other: &Member| {
        other.id().is_some_and(|id| member.view().is_some_and(|view| view.get(id).is_some()))
    };
    let known_by = |other: &Member| group.iter().filter(|member| knows(member, other)).count();
    let Some(best) = group.iter().max_by_key(|member| known_by(member)).copied() else { return group };
    group.retain(|member| knows(member, &best));
    group
}

/// Data that no slot accounts for: forming would be guessing.
fn obstacles(model: &ClusterModel) -> Vec<(Reason, String)> {
    let wanted = model.members.iter().filter(|member| member.wanted);
    let bad = |member: &Member| {
        let facts = member.facts()?;
        let stray = facts.role == Role::Primary && facts.keys > 0 && facts.summary.slots_mine == 0;
        match member.membership {
            Membership::Ours if stray => Some((Reason::ForeignNode, stray_text(member, facts.keys))),
            _ => findings::standing_trouble(member),
        }
    };
    wanted.filter_map(bad).collect()
}

fn stray_text(member: &Member, keys: u64) -> String {
    format!(
        "{} holds {keys} keys and owns no slots, so no cluster is formed over it: empty its volume if the data is not \
         needed, or restore the nodes.conf it belongs to",
        member.name()
    )
}

fn plan(model: &ClusterModel) -> Vec<ShardPlan> {
    let mut members: Vec<&Member> = model.members.iter().filter(|member| member.wanted).collect();
    let shared_out = model.map.unassigned().is_empty();
    // Valkey calls no cluster whole in a primary's first two seconds: those that started first are the first to serve. The
    // times are rounded, so they order nothing that has to stay the same from look to look.
    if !shared_out {
        members.sort_by_key(|member| member.facts().and_then(|facts| facts.started_at));
    }
    let sites: Vec<Site> = members.iter().map(|member| site(model, member)).collect();
    let owners = sites.iter().filter(|site| site.primary).count();
    // With every slot given away, the number of shards is what it is; changing it is another operation.
    let masters = if shared_out { owners } else { model.target.masters.max(owners) };
    place(&sites, masters, model.target.replicas_per_master)
}

fn site(model: &ClusterModel, member: &Member) -> Site {
    let says = member.facts().filter(|facts| facts.role == Role::Replica).and_then(|facts| facts.primary.as_ref());
    Site {
        pod: member.pod.name.clone(),
        location: member.pod.location.clone(),
        primary: !model.slots(member).is_empty() || has_slots_in_another_view(model, member),
        replica_of: join::commanded_primary(member)
            .or(says)
            .and_then(|id| model.by_id(id))
            .map(|primary| primary.pod.name.clone()),
    }
}

/// It was given slots and dropped them since (CLUSTER RESET by hand); the others still think they are its own.
fn has_slots_in_another_view(model: &ClusterModel, member: &Member) -> bool {
    member.id().is_some_and(|id| !model.map.attributed(id).difference(model.covered()).is_empty())
}

fn give_back(model: &ClusterModel) -> Option<Proposal> {
    let commands = repair::returned(model);
    (!commands.is_empty()).then(|| Proposal::new(OrchestrationKind::Form, Stage::AssignSlots, commands))
}

/// Slots nobody has go evenly to the primaries that have none, or to all when none is without: fewer may be wanted now than when
/// the first shares were given.
fn assign(model: &ClusterModel, plan: &[ShardPlan]) -> Option<Proposal> {
    let primaries: Vec<Member> = plan.iter().filter_map(|shard| model.by_name(&shard.primary)).collect();
    let lacking: Vec<Member> = primaries.iter().filter(|member| model.slots(member).is_empty()).copied().collect();
    let takers = if lacking.is_empty() { primaries } else { lacking };
    let free = model.map.unassigned();
    if takers.is_empty() || free.is_empty() {
        return None;
    }
    let unsettled = model.members.iter().filter(|member| !member.pod.is_settled()).collect::<Vec<_>>();
    if !unsettled.is_empty() {
        // What a node took without our hearing of it must not be given to another.
        let reads = unsettled.iter().filter(|member| !member.pod.is_busy());
        let reads = reads.map(|member| command(member, Action::ReadView)).collect();
        return Some(Proposal::new(OrchestrationKind::Form, Stage::AssignSlots, reads));
    }
    let commands = takers.iter().zip(even(&free, takers.len())).enumerate();
    let commands = commands.flat_map(|(index, (member, slots))| grant(model, member, slots, index)).collect();
    Some(Proposal::new(OrchestrationKind::Form, Stage::AssignSlots, commands))
}

/// Slots, and an epoch of its own, which only a node that knows nobody can be given.
pub(crate) fn grant(model: &ClusterModel, member: &Member, slots: SlotSet, index: usize) -> Vec<PodCommand> {
    let epochs = model.members.iter().filter_map(Member::facts).map(|facts| facts.summary.current_epoch);
    let highest = epochs.max().unwrap_or_default().max(model.map.highest_epoch());
    let epoch = highest + 1 + u64::try_from(index).unwrap_or_default();
    let mut commands = vec![command(member, Action::AddSlots(slots))];
    if member.alone() && member.facts().is_some_and(|facts| facts.summary.my_epoch == 0) {
        commands.push(command(member, Action::SetConfigEpoch(epoch)));
    }
    commands
}

/// Everybody meets everybody; a replica follows as soon as it knows its primary.
fn connect(model: &ClusterModel, plan: &[ShardPlan]) -> Option<Proposal> {
    let group: Vec<Member> = model.belonging().into_iter().filter(|member| takes_part(model, member)).collect();
    let mut pairings: Vec<Pairing> = plan.iter().flat_map(|shard| pairings(model, shard)).collect();
    if pairings.is_empty() {
        // All follow somebody; two may follow the same where another has none.
        pairings = join::pairings(model);
    }
    let introductions = mesh::introductions(model, &group);
    if introductions.is_none() && pairings.is_empty() {
        return None;
    }
    let (step, mut commands) = introductions.unwrap_or((Stage::Replicate, Vec::new()));
    commands.extend(join::commands(&pairings, model.target.pods()));
    Some(
        Proposal::new(OrchestrationKind::Form, step, commands)
            .and_waits(vec!["the nodes to know each other".to_owned()]),
    )
}

fn pairings<'a>(model: &ClusterModel<'a>, shard: &ShardPlan) -> Vec<Pairing<'a>> {
    let Some(primary) = model.by_name(&shard.primary) else { return Vec::new() };
    let replicas = shard.replicas.iter().filter_map(|name| model.by_name(name));
    let unattached = replicas.filter(|replica| replica.is(Role::Primary) && model.slots(replica).is_empty());
    unattached.map(|replica| Pairing { replica, primary }).collect()
}

/// Formed is what every node says is formed.
fn verify(model: &ClusterModel) -> Option<Proposal> {
    // With another number of shards than is wanted now, the replicas cannot come out right before that is settled.
    let as_wanted = model.owners().len() == model.target.masters;
    let doubts = if as_wanted { findings::doubts(model) } else { findings::view_doubts(model) };
    let since = model.running.map(|running| age(model.now, running.step_started_at));
    let stuck = since.is_some_and(|since| since > super::limits::PATIENCE);
    (!doubts.is_empty())
        .then(|| Proposal { stuck, ..Proposal::waiting(OrchestrationKind::Form, Stage::Verify, doubts) })
}
