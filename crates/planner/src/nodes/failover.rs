//! Failover: a primary is dead by the word of the sidecar beside it (or gone by the cluster's), and the best replica takes over
//! by vote. Never while the primary answers, never without a vote. Pure.

use super::action::{Action, FailoverMode, PodCommand};
use super::candidates::{candidates, continuous};
use super::cluster_model::{ClusterModel, Member};
use super::limits::{self, age};
use super::node_failures::{self, Certainty, NodeFailure};
use super::observation::{Answered, Boot, Following, Outcome, Valkey};
use super::proposal::{Proposal, command};
use super::record::{OrchestrationKind, Stage};
use super::{departed, gates};
use api::conditions::Reason;
use std::collections::BTreeMap;
use topology::{NodeId, NodeView, Position, Role, SlotSet};

/// What is to be done about one failure.
enum Verdict {
    Do(PodCommand),
    Wait(String),
    Blocked(Reason, String),
}

pub(crate) fn propose(model: &ClusterModel) -> Option<Proposal> {
    // Nobody is left to fail over to; what is to be done then is said by the healing.
    if model.emptied {
        return None;
    }
    let owners = model.ownership();
    let lacking = (owners.len() / 2 + 1).saturating_sub(voters(model));
    let failures = owners.keys().filter_map(|id| node_failures::failure(model, id, owners.len()));
    // While enough are left to vote, they agree among themselves what has failed.
    let lost = lacking > unheard_voters(model);
    let failures = failures.filter(|failure| failure.certainty != Certainty::Suspected || lost).collect::<Vec<_>>();
    if failures.is_empty() {
        return None;
    }
    let proposal = judged(model, failures, lacking, owners.len());
    Some(if successor_may_be_unread(model) { reading(model, proposal, &owners) } else { proposal })
}

fn judged<'a>(model: &ClusterModel<'a>, failures: Vec<NodeFailure<'a>>, mut lacking: usize, owners: usize) -> Proposal {
    let mut proposal = Proposal::new(OrchestrationKind::Failover, Stage::Promote, Vec::new());
    for failure in ordered(model, failures) {
        let verdict = verdict(model, &failure, &mut lacking, owners);
        add(&mut proposal, patiently(model, &failure, verdict));
    }
    proposal.stuck = proposal.commands.is_empty() && proposal.waits.is_empty();
    proposal
}

/// A container that only starts again is nothing to be called lost.
fn patiently(model: &ClusterModel, failure: &NodeFailure, verdict: Verdict) -> Verdict {
    let seen = failure.since.filter(|_| failure.certainty == Certainty::Certain && failure.pod.is_some());
    match verdict {
        Verdict::Blocked(Reason::PrimaryDown, _)
            if seen.is_some_and(|since| age(model.now, since) < limits::LOST_FOR) =>
        {
            Verdict::Wait(format!("{} to start again", name(model, failure)))
        }
        Verdict::Blocked(..) if seen.is_some_and(|since| age(model.now, since) < limits::RESTART) => {
            Verdict::Wait(format!("{} to start again", name(model, failure)))
        }
        verdict => verdict,
    }
}

/// Nothing is done before the views are read, and what was said to be blocked stays said, unless the one that is unread may be
/// what it waits for.
fn reading(model: &ClusterModel, judged: Proposal, owners: &BTreeMap<NodeId, SlotSet>) -> Proposal {
    let unread = model.members.iter().filter(|member| member.is(Role::Primary) && member.view().is_none());
    let new = unread.filter_map(Member::id).any(|id| !owners.contains_key(id));
    let blocked = if new { Vec::new() } else { judged.blocked };
    let stuck = judged.stuck && !blocked.is_empty();
    Proposal { blocked, stuck, ..Proposal::new(OrchestrationKind::Failover, Stage::ReadViews, Vec::new()) }
}

/// A replica that took over a moment ago would be overlooked. Whoever owned slots when it was last read is none: it may be unread for as
/// long as slots move from it.
fn successor_may_be_unread(model: &ClusterModel) -> bool {
    let unread = model.members.iter().filter(|member| member.is(Role::Primary) && member.view().is_none());
    !model.large && unread.into_iter().any(|member| !member.alone() && !was_owner(member))
}

fn was_owner(member: &Member) -> bool {
    let last = member.pod.view.as_ref().and_then(NodeView::myself).filter(|node| member.has_id(&node.node_id));
    last.is_some_and(|node| node.role == Role::Primary && !node.slots.is_empty())
}

fn add(proposal: &mut Proposal, verdict: Verdict) {
    match verdict {
        Verdict::Do(command) => {
            if matches!(command.action, Action::OpenGate(..)) && proposal.commands.is_empty() {
                proposal.step = Stage::OpenGates;
            }
            proposal.commands.push(command);
        }
        Verdict::Wait(text) => proposal.waits.push(text),
        Verdict::Blocked(reason, text) => proposal.blocked.push((reason, text)),
    }
}

/// Primaries with slots that answer and know others: only they vote.
fn voters(model: &ClusterModel) -> usize {
    let owns = |member: &Member| member.facts().is_some_and(|facts| facts.summary.slots_mine > 0);
    let votes = |member: &&Member| member.belongs() && member.is(Role::Primary) && owns(member) && !member.alone();
    model.members.iter().filter(votes).count()
}

/// Primaries that the others hear and we do not.
fn unheard_voters(model: &ClusterModel) -> usize {
    let dead = |id: &NodeId| node_failures::certain(model, id).is_some();
    let unheard = |id: &&NodeId| model.by_id(id).is_none() && !dead(id) && departed::answers_somewhere(model, id);
    model.ownership().keys().filter(unheard).count()
}

/// Those that no living replica can stand in for come first: if gates must be opened for a majority, they are the ones.
fn ordered<'a>(model: &ClusterModel<'a>, mut failures: Vec<NodeFailure<'a>>) -> Vec<NodeFailure<'a>> {
    failures.sort_by_key(|failure| (!continuous(model, failure).is_empty(), failure.id.clone()));
    failures
}

fn verdict(model: &ClusterModel, failure: &NodeFailure, lacking: &mut usize, owners: usize) -> Verdict {
    let waiting = failure.pod.zip(failure.boot);
    let with_data = waiting.filter(|(_, boot)| boot.has_data);
    if let Some((member, boot)) = waiting
        && (gates::replaced(model, boot) || !gates::was_owner(boot))
    {
        return Verdict::Do(gates::open(&member, "another node owns its slots now"));
    }
    if waiting.is_some() && is_electing(model, failure) {
        return Verdict::Wait(format!("a replica of {} to say whether it took over", name(model, failure)));
    }
    let nobody_has_more = continuous(model, failure).is_empty();
    let unheard = unheard_replicas(model, failure);
    let may_be_older = |(_, boot): &(_, &Boot)| nobody_has_more && !unheard.is_empty() && !has_less(boot);
    if let Some((_, boot)) = with_data.filter(may_be_older) {
        match boot.journal {
            true if *lacking == 0 => return Verdict::Wait(journal_text(model, failure, &unheard)),
            true => {}
            false => return Verdict::Blocked(Reason::OnlyOlderCopy, unheard_text(model, failure, &unheard)),
        }
    }
    if let Some((member, _)) = with_data.filter(|(_, boot)| !has_less(boot))
        && (nobody_has_more || *lacking > 0)
    {
        *lacking = lacking.saturating_sub(1);
        return Verdict::Do(gates::open(
            &member,
            "no replica has more of the data, or too few primaries are left to vote",
        ));
    }
    if *lacking > 0 && *lacking <= unheard_voters(model) {
        return Verdict::Wait(format!("the sidecars of more primaries, to fail {} over", name(model, failure)));
    }
    if *lacking > 0 {
        return Verdict::Blocked(Reason::MajorityLost, majority_text(model, failure, owners));
    }
    // A suspicion comes here when gates were opened for the votes it lacked: the voters have their say first.
    let election = model.step_age(OrchestrationKind::Failover).is_none_or(|age| age < limits::ELECTION_FIRST);
    if failure.certainty == Certainty::Suspected || failure.certainty == Certainty::Outvoted && election {
        return Verdict::Wait(format!("the cluster's own election for {}", name(model, failure)));
    }
    promote(model, failure)
}

/// Nodes of its shard that do not answer and may still have their data, by the record. Without one its own word counts.
fn unheard_replicas(model: &ClusterModel, failure: &NodeFailure) -> Vec<String> {
    if model.recorded_shard(&failure.id).is_some() {
        return departed::awaited(model, &failure.id).into_iter().map(|node| node.pod.to_string()).collect();
    }
    let gone = |id: &NodeId| model.by_id(id).is_some() || departed::successor(model, id).is_some();
    let known = failure.boot.into_iter().flat_map(|boot| &boot.known_replicas);
    known.filter(|id| !gone(id)).map(|id| id.short().to_owned()).collect()
}

/// Its sidecar heard of a replica that has more than this node would load, and does not let it through before that one took over.
fn has_less(boot: &Boot) -> bool {
    boot.better_copy.is_some()
}

fn promote(model: &ClusterModel, failure: &NodeFailure) -> Verdict {
    let all = candidates(model, failure);
    // Valkey holds its own elections back for a copy that is too old, and a forced one would not.
    let able = if may_bring_more(model, failure) { continuous(model, failure) } else { newer(model, failure, &all) };
    let next = able.iter().find(|candidate| !tried(model, candidate)).filter(|_| !is_electing(model, failure));
    match next {
        Some(best) => Verdict::Do(command(best, Action::Failover(FailoverMode::Force, needed(model, failure)))),
        None if !able.is_empty() => Verdict::Wait(vote_text(model, failure, &able)),
        None if !all.is_empty() => only_older(model, failure, &all),
        None => no_candidate(model, failure),
    }
}

/// What waits with its data has more than whoever was restarted and has only what its own disk had, and so may who is not heard.
fn newer<'a>(model: &ClusterModel, failure: &NodeFailure, candidates: &[Member<'a>]) -> Vec<Member<'a>> {
    let waits = failure.boot.is_some_and(|boot| boot.has_data) || !departed::awaited(model, &failure.id).is_empty();
    let restarted = |member: &Member| member.facts().is_some_and(|facts| facts.following == Following::Never);
    candidates.iter().filter(|member| !(waits && restarted(member))).copied().collect()
}

/// Its data is kept somewhere, and it was not seen to come back without it or with less than others have.
fn may_bring_more(model: &ClusterModel, failure: &NodeFailure) -> bool {
    match failure.boot {
        Some(boot) => boot.has_data && !has_less(boot),
        None => is_kept(model, failure) && departed::successor(model, &failure.id).is_none(),
    }
}

/// A volume outlives the pod; an emptyDir outlives its containers and ends with the pod.
fn is_kept(model: &ClusterModel, failure: &NodeFailure) -> bool {
    let recorded = model.recorded_node(&failure.id).and_then(|node| node.pod_uid.as_ref());
    let ran_there = |member: &Member| {
        let told = matches!(&member.pod.valkey, Valkey::Down { node_id: Some(id), .. } if *id == failure.id);
        told && member.pod.connected || recorded.is_none_or(|uid| *uid == member.pod.uid)
    };
    model.target.persistent || failure.pod.is_some_and(|member| ran_there(&member))
}

/// What a replica has to have, for its primary was seen to have it and may bring it back.
fn needed(model: &ClusterModel, failure: &NodeFailure) -> Option<Position> {
    failure.last_position().filter(|_| may_bring_more(model, failure)).cloned()
}

/// Of a primary whose end nobody saw, Valkey may know more: it elects by itself whoever followed it long enough.
fn only_older(model: &ClusterModel, failure: &NodeFailure, candidates: &[Member]) -> Verdict {
    if !may_bring_more(model, failure) && !departed::awaited(model, &failure.id).is_empty() {
        return Verdict::Blocked(Reason::OnlyOlderCopy, restarted_text(model, failure, candidates));
    }
    let patient = model.step_age(OrchestrationKind::Failover).is_none_or(|age| age < limits::PATIENCE);
    match failure.since {
        None if patient => Verdict::Wait(format!("the cluster's own election for {}", name(model, failure))),
        _ => Verdict::Blocked(Reason::OnlyOlderCopy, older_text(model, failure, candidates)),
    }
}

fn no_candidate(model: &ClusterModel, failure: &NodeFailure) -> Verdict {
    let unheard = model.unheard();
    let others_unheard = unheard.iter().any(|pod| failure.pod.is_none_or(|member| member.name() != pod));
    match failure.pod.zip(failure.boot) {
        // It has no data and nobody else has: there is nothing left to protect.
        Some((member, boot)) if !others_unheard && gates::no_copy_is_known(model, boot) => {
            Verdict::Do(gates::open(&member, "no copy of its data is left anywhere"))
        }
        _ if unheard.is_empty() && nobody_has_anything(model, failure) => match untried_replica(model, failure) {
            Some(heir) => Verdict::Do(command(&heir, Action::Failover(FailoverMode::Force, None))),
            None => Verdict::Wait(vote_text(model, failure, &model.replicas_of(&failure.id))),
        },
        // Nothing is lost that its own pod may bring back.
        _ if failure.pod.is_some() && may_bring_more(model, failure) => {
            Verdict::Blocked(Reason::PrimaryDown, lost_text(model, failure))
        }
        _ => Verdict::Blocked(Reason::ShardLost, lost_text(model, failure)),
    }
}

/// One of its replicas was told to take over and has not said yet what came of it: another would only split the votes.
fn is_electing(model: &ClusterModel, failure: &NodeFailure) -> bool {
    let electing = |replica: &Member| replica.pod.under_way.iter().any(|action| matches!(action, Action::Failover(..)));
    model.replicas_of(&failure.id).iter().any(electing)
}

/// Its pod runs another node, and its replicas never got anything of it, as when it was replaced while the cluster was formed.
/// Valkey lets none of them stand for election by itself.
fn nobody_has_anything(model: &ClusterModel, failure: &NodeFailure) -> bool {
    let replicas = model.replicas_of(&failure.id);
    let empty = |member: &Member| member.belongs() && member.facts().is_some_and(|facts| facts.keys == 0);
    let gone = departed::successor(model, &failure.id).is_some();
    gone && !replicas.is_empty() && replicas.iter().all(empty) && departed::awaited(model, &failure.id).is_empty()
}

fn untried_replica<'a>(model: &ClusterModel<'a>, failure: &NodeFailure) -> Option<Member<'a>> {
    let mut replicas = model.replicas_of(&failure.id).into_iter();
    replicas.find(|replica| !tried(model, replica)).filter(|_| !is_electing(model, failure))
}

fn tried(model: &ClusterModel, candidate: &Member) -> bool {
    let pause = |outcome: &Outcome| match outcome {
        Outcome::Done => limits::REPEAT_DONE,
        _ => limits::FAILOVER_PAUSE,
    };
    let lately = attempt(candidate).is_some_and(|answer| age(model.now, answer.at) < pause(&answer.outcome));
    candidate.pod.is_busy() || lately
}

fn attempt<'a>(candidate: &Member<'a>) -> Option<&'a Answered> {
    candidate.pod.answer.as_ref().filter(|answer| matches!(answer.action, Action::Failover(..)))
}

fn name(model: &ClusterModel, failure: &NodeFailure) -> String {
    let recorded = model.recorded_pod(&failure.id);
    let pod = failure.pod.map(|member| member.name()).or(recorded);
    pod.map_or_else(|| failure.id.short().to_owned(), ToString::to_string)
}

/// A primary that was reset by hand does not know the dead one, and never votes for its successor.
fn vote_text(model: &ClusterModel, failure: &NodeFailure, candidates: &[Member]) -> String {
    let running = model.running.filter(|running| running.kind == OrchestrationKind::Failover);
    let long = running.is_some_and(|running| age(model.now, running.started_at) > limits::VOTE);
    let waits = format!("a replica of {} to win the vote", name(model, failure));
    match candidates.first().filter(|_| long) {
        Some(best) => format!(
            "{waits}, which the other primaries did not give it so far. If they go on so, run CLUSTER FAILOVER TAKEOVER on {}: what \
             was not replicated is then lost",
            best.name()
        ),
        None => waits,
    }
}

fn majority_text(model: &ClusterModel, failure: &NodeFailure, owners: usize) -> String {
    format!(
        "{} {}, and {} of {owners} primaries are left: too few to elect a successor. It goes on when they are back. If they \
         are lost for good, run CLUSTER FAILOVER TAKEOVER on one replica of each shard: what was not replicated is then lost",
        name(model, failure),
        if failure.certainty == Certainty::Certain { "is down" } else { "is not heard by anybody" },
        voters(model),
    )
}

fn older_text(model: &ClusterModel, failure: &NodeFailure, candidates: &[Member]) -> String {
    let names: Vec<String> = candidates.iter().map(|member| member.name().to_string()).collect();
    format!(
        "{} is away, and {} is not known to have followed it to the end: it may lack acknowledged writes. It goes on when {} is back; \
         if its data is lost, run CLUSTER FAILOVER FORCE on {}",
        name(model, failure),
        limits::listed(&names),
        name(model, failure),
        names.first().map_or("it", String::as_str),
    )
}

fn restarted_text(model: &ClusterModel, failure: &NodeFailure, candidates: &[Member]) -> String {
    let names: Vec<String> = candidates.iter().map(|member| member.name().to_string()).collect();
    let awaited: Vec<String> = departed::awaited(model, &failure.id).iter().map(|node| node.pod.to_string()).collect();
    format!(
        "{} was restarted and has what its own disk had, and {} is not heard and may have more. It goes on when that one is heard. If \
         that one is lost for good, delete its pod, and its PersistentVolumeClaim if that is lost too",
        limits::listed(&names),
        limits::listed(&awaited),
    )
}

fn journal_text(model: &ClusterModel, failure: &NodeFailure, unheard: &[String]) -> String {
    format!(
        "{} to be heard, which may have more than {}; its own sidecar starts it if nobody answers",
        limits::listed(unheard),
        name(model, failure)
    )
}

fn unheard_text(model: &ClusterModel, failure: &NodeFailure, unheard: &[String]) -> String {
    format!(
        "{} waits to start with a snapshot, and {} is not heard and may have what was written after it. It goes on when that one is heard. \
         If that one is lost for good, delete its pod, and its PersistentVolumeClaim if that is lost too",
        name(model, failure),
        limits::listed(unheard),
    )
}

fn lost_text(model: &ClusterModel, failure: &NodeFailure) -> String {
    let otherwise = match model.target.persistent {
        true => "; if their volumes are lost, restore one",
        false => ", or with an empty shard when new pods are in their places",
    };
    format!(
        "{} is down and no replica of it answers. It goes on when one of them is back{otherwise}",
        name(model, failure)
    )
}
