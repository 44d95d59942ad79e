//! Scale: as many shards and replicas as are asked for. Newcomers join and have their data first, then slots move, then roles leave the
//! pods that go, and last those nodes leave the cluster. Derived from what the nodes say at every look. Pure.

use super::action::{Action, FailoverMode, PodCommand};
use super::cluster_model::{ClusterModel, Member, Membership};
use super::findings;
use super::join::{self, is_kept_copy};
use super::limits::{PATIENCE, age, listed};
use super::primaries::{self, is_spare, primaries};
use super::proposal::{Proposal, command};
use super::record::{OrchestrationKind, Stage};
use super::{open_slots, views};
use std::collections::BTreeSet;
use topology::{Move, NodeId, PodName, Role, SlotSet, even_out};

/// What nodes are being brought together for.
pub(crate) fn kind(model: &ClusterModel) -> OrchestrationKind {
    if applies(model) { OrchestrationKind::Scale } else { OrchestrationKind::Heal }
}

pub(crate) fn propose(model: &ClusterModel) -> Option<Proposal> {
    if !applies(model) {
        return None;
    }
    let obstacles = obstacles(model);
    if !obstacles.is_empty() {
        // What was begun goes on where it is.
        let step = model
            .running
            .filter(|running| running.kind == OrchestrationKind::Scale)
            .map_or(Stage::AwaitPods, |it| it.step);
        return Some(Proposal { stuck: true, ..Proposal::waiting(OrchestrationKind::Scale, step, obstacles) });
    }
    let primaries = primaries(model);
    release(model, &primaries)
        .or_else(|| move_slots(model, &primaries))
        .or_else(|| hand_over(model, &primaries))
        .or_else(|| leave(model, &primaries))
        .or_else(|| verify(model))
}

/// The cluster was formed with other numbers than are asked for now, or slots are still on their way.
fn applies(model: &ClusterModel) -> bool {
    let formed = !model.recorded.is_empty() && !model.emptied;
    let shards = model.recorded.iter().filter(|shard| !shard.slots.is_empty()).count();
    let begun = model.running.is_some_and(|running| running.kind == OrchestrationKind::Scale) || model.scale_waits;
    let leaves = || model.members.iter().any(|member| has_to_leave(model, member));
    formed && (shards != model.target.masters || begun || grows(model) || leaves())
}

/// Everybody on record answers, and that is fewer than are asked for: nobody is missing, more are wanted.
fn grows(model: &ClusterModel) -> bool {
    if model.running.is_some_and(|running| running.kind == OrchestrationKind::Heal) {
        return false;
    }
    let all_answer = model.recorded_nodes().all(|node| model.by_id(&node.node_id).is_some());
    all_answer && model.recorded_nodes().count() < model.target.pods()
}

/// A pod beyond those that are asked for, whose node belongs to the cluster.
fn has_to_leave(model: &ClusterModel, member: &Member) -> bool {
    let on_record = || model.recorded_nodes().any(|node| node.pod == *member.name());
    !member.wanted && (member.membership == Membership::Ours || member.facts().is_none() && on_record())
}

fn obstacles(model: &ClusterModel) -> Vec<String> {
    let mut obstacles = Vec::new();
    if !model.all_answer() {
        let silent = model.members.iter().filter(|member| member.wanted && member.facts().is_none());
        let mut names: Vec<_> = silent.map(|member| member.name().clone()).chain(model.unheard()).collect();
        names.sort_by_key(PodName::ordinal);
        names.dedup();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        obstacles.push(format!("all {} Valkeys to answer; not yet: {}", model.target.pods(), listed(&names)));
    }
    if !primaries::is_served(model) {
        obstacles.push("every slot to have a primary that answers".to_owned());
    }
    if !model.map.agrees() || !model.map.conflicts().is_empty() || !views::missing(model).is_empty() {
        obstacles.push("the nodes to agree who owns which slots".to_owned());
    }
    obstacles
}

/// More shards and fewer replicas: replicas that nobody needs become new nodes, which can be primaries.
fn release(model: &ClusterModel, primaries: &[Member]) -> Option<Proposal> {
    let missing = model.target.masters.checked_sub(primaries.len()).filter(|missing| *missing > 0)?;
    let unneeded = join::unneeded(model);
    let commands = unneeded.iter().take(missing).map(|replica| command(replica, Action::Leave)).collect();
    let waits = vec![format!("{missing} new nodes for the new shards")];
    Some(Proposal::new(OrchestrationKind::Scale, Stage::Leave, commands).and_waits(waits))
}

/// Every pair of primaries that have no part in another move does its first one: what was left open comes before all else. Whoever gives
/// slots away is read first, as not all are in a large cluster.
fn move_slots(model: &ClusterModel, primaries: &[Member]) -> Option<Proposal> {
    let ids: Vec<NodeId> = primaries.iter().filter_map(Member::id).cloned().collect();
    let mut moves = open_slots::unfinished(model);
    moves.extend(even_out(&model.map.owners(), &ids));
    let left = moves.iter().fold(SlotSet::default(), |all, one| all.union(&one.slots)).count();
    let (mut engaged, mut commands, mut waits) = (engaged(model), Vec::new(), Vec::new());
    let is_moving = !engaged.is_empty();
    for Move { from, to, slots } in moves {
        let (Some(source), Some(target)) = (model.by_id(&from), model.by_id(&to)) else { continue };
        if engaged.contains(&from) || engaged.contains(&to) {
            continue;
        }
        match lacks(model, &source, &target) {
            Some(what) => waits.push(what),
            None if source.view().is_none() => {
                commands.push(command(&source, Action::ReadView));
                engaged.insert(from);
            }
            None => {
                commands
                    .push(command(&source, Action::MigrateSlots(slots, to.clone(), model.target.replicas_per_master)));
                engaged.extend([from, to]);
            }
        }
    }
    waits.dedup();
    let proposal = Proposal::new(OrchestrationKind::Scale, Stage::MoveSlots, commands).and_waits(waits);
    match left {
        0 if is_moving => Some(proposal.and_waits(vec!["the replicas to have what was moved".to_owned()])),
        0 => None,
        _ => Some(Proposal { detail: Some(format!("{left} left")), ..proposal }),
    }
}

/// Both ends of the moves under way.
pub(crate) fn engaged(model: &ClusterModel) -> BTreeSet<NodeId> {
    let under_way = model.members.iter().flat_map(|member| {
        let targets = member.pod.under_way.iter().filter_map(|action| match action {
            Action::MigrateSlots(_, target, _) => Some(target),
            _ => None,
        });
        targets.flat_map(|target| [Some(target), member.id()]).flatten().cloned().collect::<Vec<_>>()
    });
    under_way.collect()
}

/// Why nothing moves between these two yet: what moves shall be as safe there as it was here, and Valkey takes no new primary seriously
/// before it is known.
fn lacks(model: &ClusterModel, source: &Member, target: &Member) -> Option<String> {
    let name = target.name();
    let enough = copies(model, source).min(model.target.replicas_per_master);
    let whole = |member: &Member| member.facts().is_some_and(|facts| facts.summary.state_ok);
    let started = target.facts().and_then(|facts| facts.started_at);
    let young = started.is_some_and(|started| age(model.now, started) < model.target.node_timeout);
    match () {
        () if copies(model, target) < enough => Some(format!("the replicas of {name} to have all data")),
        () if young => Some(format!("{name} to have run for a while")),
        () if !whole(source) || !whole(target) => Some(format!("{} and {name} to see a whole cluster", source.name())),
        () if source.pod.terminating || target.pod.terminating => Some(format!("{} and {name} to stay", source.name())),
        () => None,
    }
}

fn copies(model: &ClusterModel, primary: &Member) -> usize {
    let replicas = primary.id().map(|id| model.replicas_of(id)).unwrap_or_default();
    replicas.iter().filter(|replica| is_kept_copy(replica, primary)).count()
}

/// A primary whose pod goes gives its role to a replica whose pod stays, one after the other: the first that has one which can.
fn hand_over(model: &ClusterModel, primaries: &[Member]) -> Option<Proposal> {
    let going: Vec<&Member> = primaries.iter().filter(|primary| !primary.wanted).collect();
    let next = going.iter().find_map(|primary| heir(model, primary).map(|heir| (*primary, heir)));
    let (primary, heir) = next.map_or((*going.first()?, None), |(primary, heir)| (primary, Some(heir)));
    let waits = vec![format!("a pod that stays to take over from {}", primary.name())];
    let take_over = Action::Failover(FailoverMode::Coordinated, None);
    let commands = heir.map(|replica| command(&replica, take_over)).into_iter().collect();
    Some(Proposal::new(OrchestrationKind::Scale, Stage::HandOver, commands).and_waits(waits))
}

fn heir<'a>(model: &ClusterModel<'a>, primary: &Member) -> Option<Member<'a>> {
    let replicas = primary.id().map(|id| model.replicas_of(id)).unwrap_or_default();
    let able = replicas.into_iter().filter(|replica| replica.wanted && is_kept_copy(replica, primary));
    able.max_by_key(|replica| replica.facts().map(|facts| facts.replication_offset))
}

/// Nodes whose pods go leave the cluster when nothing is missed without them.
fn leave(model: &ClusterModel, primaries: &[Member]) -> Option<Proposal> {
    let leaving = model.members.iter().filter(|member| has_to_leave(model, member)).collect::<Vec<_>>();
    if leaving.is_empty() {
        return None;
    }
    let (free, held): (Vec<&Member>, Vec<&Member>) =
        leaving.into_iter().partition(|member| is_dispensable(model, primaries, member));
    let commands: Vec<PodCommand> = free.into_iter().map(|member| command(member, Action::Leave)).collect();
    let waits = held.iter().map(|member| format!("{} to be free to leave", member.name())).collect();
    Some(Proposal::new(OrchestrationKind::Scale, Stage::Leave, commands).and_waits(waits))
}

fn is_dispensable(model: &ClusterModel, primaries: &[Member], member: &Member) -> bool {
    let Some(facts) = member.facts().filter(|_| member.membership == Membership::Ours) else { return false };
    let followed = !model.replicas_of(&facts.node_id).is_empty();
    if followed || !model.map.attributed(&facts.node_id).is_empty() || !is_spare(primaries, member) {
        return false;
    }
    match (facts.role, facts.primary.as_ref().and_then(|id| model.by_id(id))) {
        (Role::Primary, _) => facts.keys == 0,
        (Role::Replica, Some(primary)) if !primary.is(Role::Primary) => false,
        (Role::Replica, Some(primary)) if model.slots(&primary).is_empty() => facts.keys == 0,
        (Role::Replica, Some(primary)) => primary.wanted && has_copies(model, &primary),
        (Role::Replica, None) => false,
    }
}

/// As many pods that stay have its data as are asked for.
fn has_copies(model: &ClusterModel, primary: &Member) -> bool {
    let replicas = primary.id().map(|id| model.replicas_of(id)).unwrap_or_default();
    let staying = replicas.iter().filter(|replica| replica.wanted && is_kept_copy(replica, primary));
    staying.count() >= model.target.replicas_per_master
}

/// Pods whose nodes have left, until Kubernetes has ended them.
fn ending(model: &ClusterModel) -> Option<String> {
    let beyond = model.members.iter().filter(|member| !member.wanted).map(|member| member.name().to_string());
    let names: Vec<String> = beyond.collect();
    (!names.is_empty()).then(|| format!("the pods to end: {}", listed(&names)))
}

/// Scaled is what every node says is scaled.
fn verify(model: &ClusterModel) -> Option<Proposal> {
    let scaling = model.running.filter(|running| running.kind == OrchestrationKind::Scale)?;
    let verified_for = model.step_age(OrchestrationKind::Scale).filter(|_| scaling.step == Stage::Verify);
    let doubts: Vec<String> = ending(model).into_iter().chain(findings::doubts(model)).collect();
    let give_up = verified_for.is_some_and(|age| age > PATIENCE * 3);
    (!doubts.is_empty() && !give_up).then(|| Proposal::waiting(OrchestrationKind::Scale, Stage::Verify, doubts))
}
