//! Failover: a primary is dead by the word of the sidecar beside it (or gone by the cluster's), and the best replica takes over
//! by vote. Never while the primary answers, never without a vote. Pure.

use crate::action::{Action, FailoverMode, PodCommand};
use crate::candidates::{candidates, continuous};
use crate::deaths::{self, Certainty, Death};
use crate::decision::Reason;
use crate::limits::{self, age};
use crate::observation::{Answered, Outcome};
use crate::picture::{Member, Picture};
use crate::proposal::{Proposal, command};
use crate::record::{Kind, Step};
use crate::{gates, ghosts};
use std::collections::BTreeMap;
use topology::{NodeId, Role, SlotSet};

/// What is to be done about one death.
enum Verdict {
    Do(PodCommand),
    Wait(String),
    Blocked(Reason, String),
}

pub(crate) fn propose(picture: &Picture) -> Option<Proposal> {
    // Nobody is left to fail over to; what is to be done then is said by the healing.
    if picture.emptied {
        return None;
    }
    let owners = picture.ownership();
    let lacking = (owners.len() / 2 + 1).saturating_sub(voters(picture));
    let deaths = owners.keys().filter_map(|id| deaths::death(picture, id, owners.len()));
    // While enough are left to vote, they agree among themselves what has failed.
    let lost = lacking > unheard_voters(picture);
    let deaths = deaths.filter(|death| death.certainty != Certainty::Suspected || lost).collect::<Vec<_>>();
    if deaths.is_empty() {
        return None;
    }
    let proposal = judged(picture, deaths, lacking, owners.len());
    Some(if successor_may_be_unread(picture) { reading(picture, proposal, &owners) } else { proposal })
}

fn judged<'a>(picture: &Picture<'a>, deaths: Vec<Death<'a>>, mut lacking: usize, owners: usize) -> Proposal {
    let mut proposal = Proposal::new(Kind::Failover, Step::Promote, Vec::new());
    for death in ordered(picture, deaths) {
        let verdict = verdict(picture, &death, &mut lacking, owners);
        add(&mut proposal, patiently(picture, &death, verdict));
    }
    proposal.stuck = proposal.commands.is_empty() && proposal.waits.is_empty();
    proposal
}

/// A container that only starts again is nothing to be called lost.
fn patiently(picture: &Picture, death: &Death, verdict: Verdict) -> Verdict {
    let seen = death.since.filter(|_| death.certainty == Certainty::Certain && death.pod.is_some());
    match verdict {
        Verdict::Blocked(..) if seen.is_some_and(|since| age(picture.now, since) < limits::RESTART) => {
            Verdict::Wait(format!("{} to start again", name(picture, death)))
        }
        verdict => verdict,
    }
}

/// Nothing is done before the views are read, and what was said to be blocked stays said, unless the one that is unread may be
/// what it waits for.
fn reading(picture: &Picture, judged: Proposal, owners: &BTreeMap<NodeId, SlotSet>) -> Proposal {
    let unread = picture.members.iter().filter(|member| member.is(Role::Primary) && member.view().is_none());
    let new = unread.filter_map(Member::id).any(|id| !owners.contains_key(id));
    let blocked = if new { Vec::new() } else { judged.blocked };
    let stuck = judged.stuck && !blocked.is_empty();
    Proposal { blocked, stuck, ..Proposal::new(Kind::Failover, Step::ReadViews, Vec::new()) }
}

/// A replica that took over a moment ago would be overlooked.
fn successor_may_be_unread(picture: &Picture) -> bool {
    let primaries = picture.members.iter().filter(|member| member.is(Role::Primary));
    !picture.large && primaries.into_iter().any(|member| !member.alone() && member.view().is_none())
}

fn add(proposal: &mut Proposal, verdict: Verdict) {
    match verdict {
        Verdict::Do(command) => {
            if matches!(command.action, Action::OpenGate(..)) && proposal.commands.is_empty() {
                proposal.step = Step::OpenGates;
            }
            proposal.commands.push(command);
        }
        Verdict::Wait(text) => proposal.waits.push(text),
        Verdict::Blocked(reason, text) => proposal.blocked.push((reason, text)),
    }
}

/// Primaries with slots that answer and know others: only they vote.
fn voters(picture: &Picture) -> usize {
    picture.owners().iter().filter(|owner| owner.is(Role::Primary) && !owner.alone()).count()
}

/// Primaries that the others hear and we do not.
fn unheard_voters(picture: &Picture) -> usize {
    let dead = |id: &NodeId| deaths::certain(picture, id).is_some();
    let unheard = |id: &&NodeId| picture.by_id(id).is_none() && !dead(id) && ghosts::answers_somewhere(picture, id);
    picture.ownership().keys().filter(unheard).count()
}

/// Those that no living replica can stand in for come first: if gates must be opened for a majority, they are the ones.
fn ordered<'a>(picture: &Picture<'a>, mut deaths: Vec<Death<'a>>) -> Vec<Death<'a>> {
    deaths.sort_by_key(|death| (!continuous(picture, death).is_empty(), death.id.clone()));
    deaths
}

fn verdict(picture: &Picture, death: &Death, lacking: &mut usize, owners: usize) -> Verdict {
    let waiting = death.pod.zip(death.boot);
    let with_data = waiting.filter(|(_, boot)| boot.has_data);
    if let Some((member, boot)) = waiting
        && (gates::replaced(picture, boot) || !gates::was_owner(boot))
    {
        return Verdict::Do(gates::open(&member, "another node owns its slots now"));
    }
    if let Some((member, _)) = with_data.filter(|(member, _)| !objected(member))
        && (continuous(picture, death).is_empty() || *lacking > 0)
    {
        *lacking = lacking.saturating_sub(1);
        return Verdict::Do(gates::open(
            &member,
            "no replica has more of the data, or too few primaries are left to vote",
        ));
    }
    if *lacking > 0 && *lacking <= unheard_voters(picture) {
        return Verdict::Wait(format!("the sidecars of more primaries, to fail {} over", name(picture, death)));
    }
    if *lacking > 0 {
        return Verdict::Blocked(Reason::MajorityLost, majority_text(picture, death, owners));
    }
    // A suspicion comes here when gates were opened for the votes it lacked: the voters have their say first.
    let election = picture.step_age(Kind::Failover).is_none_or(|age| age < limits::ELECTION_FIRST);
    if death.certainty == Certainty::Suspected || death.certainty == Certainty::Outvoted && election {
        return Verdict::Wait(format!("the cluster's own election for {}", name(picture, death)));
    }
    promote(picture, death)
}

/// Its sidecar refused to let it through: a replica that answers has more than this node would load.
fn objected(member: &Member) -> bool {
    let answer = member.pod.answer.as_ref().filter(|answer| matches!(answer.action, Action::OpenGate(..)));
    answer.is_some_and(|answer| matches!(answer.outcome, Outcome::Refused(_)))
}

fn promote(picture: &Picture, death: &Death) -> Verdict {
    let all = candidates(picture, death);
    // Valkey holds its own elections back for a copy that is too old, and a forced one would not.
    let able = if may_bring_more(picture, death) { continuous(picture, death) } else { all.clone() };
    let next = able.iter().find(|candidate| !tried(picture, death, candidate));
    match next {
        Some(best) => Verdict::Do(command(best, Action::Failover(FailoverMode::Force))),
        None if !able.is_empty() => Verdict::Wait(vote_text(picture, death, &able)),
        None if !all.is_empty() => only_older(picture, death, &all),
        None => no_candidate(picture, death),
    }
}

/// It has a volume and was not seen to come back without it.
fn may_bring_more(picture: &Picture, death: &Death) -> bool {
    picture.wanted.persistent && death.boot.is_none() && ghosts::successor(picture, &death.id).is_none()
}

/// Of a primary whose end nobody saw, Valkey may know more: it elects by itself whoever followed it long enough.
fn only_older(picture: &Picture, death: &Death, candidates: &[Member]) -> Verdict {
    let patient = picture.step_age(Kind::Failover).is_none_or(|age| age < limits::PATIENCE);
    match death.since {
        None if patient => Verdict::Wait(format!("the cluster's own election for {}", name(picture, death))),
        _ => Verdict::Blocked(Reason::OnlyOlderCopy, older_text(picture, death, candidates)),
    }
}

fn no_candidate(picture: &Picture, death: &Death) -> Verdict {
    let unheard = picture.unheard();
    let others_unheard = unheard.iter().any(|pod| death.pod.is_none_or(|member| member.name() != pod));
    match death.pod.zip(death.boot) {
        // It has no data and nobody else has: there is nothing left to protect.
        Some((member, _)) if !others_unheard && known_replicas_are_gone(picture, death) => {
            Verdict::Do(gates::open(&member, "no copy of its data is left anywhere"))
        }
        _ if unheard.is_empty() && nobody_has_anything(picture, death) => match untried_replica(picture, death) {
            Some(heir) => Verdict::Do(command(&heir, Action::Failover(FailoverMode::Force))),
            None => Verdict::Wait(vote_text(picture, death, &picture.replicas_of(&death.id))),
        },
        _ => Verdict::Blocked(Reason::ShardLost, lost_text(picture, death)),
    }
}

/// Its pod runs another node, and its replicas never got anything of it, as when it was replaced while the cluster was formed.
/// Valkey lets none of them stand for election by itself.
fn nobody_has_anything(picture: &Picture, death: &Death) -> bool {
    let replicas = picture.replicas_of(&death.id);
    let empty = |member: &Member| member.belongs() && member.facts().is_some_and(|facts| facts.keys == 0);
    let gone = ghosts::successor(picture, &death.id).is_some();
    gone && !replicas.is_empty() && replicas.iter().all(empty)
}

fn untried_replica<'a>(picture: &Picture<'a>, death: &Death) -> Option<Member<'a>> {
    picture.replicas_of(&death.id).into_iter().find(|replica| !tried(picture, death, replica))
}

/// None of the replicas it knew is a node of any pod, running or waiting.
fn known_replicas_are_gone(picture: &Picture, death: &Death) -> bool {
    let lives = |id: &NodeId| {
        picture.members.iter().any(|member| member.has_id(id) || ghosts::last_id(picture, member) == Some(id))
    };
    death.boot.is_some_and(|boot| !boot.known_replicas.iter().any(lives))
}

fn tried(picture: &Picture, death: &Death, candidate: &Member) -> bool {
    let pause = |outcome: &Outcome| match outcome {
        Outcome::Done => limits::REPEAT_DONE,
        _ => limits::FAILOVER_PAUSE,
    };
    let lately = attempt(candidate).is_some_and(|answer| age(picture.now, answer.at) < pause(&answer.outcome));
    candidate.pod.is_busy() || lately || voters_are_bound(picture, death)
}

/// Who granted a vote denies every other for the same primary for two node timeouts. Attempts that follow each other faster may
/// get one vote each time, from another voter each time: after the first few, everybody gets that time.
fn voters_are_bound(picture: &Picture, death: &Death) -> bool {
    let running = picture.running.filter(|running| running.kind == Kind::Failover);
    let first = running.is_none_or(|running| age(picture.now, running.started_at) < limits::QUICK_ATTEMPTS);
    let bound = picture.wanted.node_timeout * 2 + limits::CLOCKS;
    let asks = |replica: &Member| replica.pod.under_way.iter().any(|action| matches!(action, Action::Failover(_)));
    let lately = |answer: &Answered| age(picture.now, answer.at) < bound;
    // What its sidecar refused, nobody was asked for.
    let voted = |answer: &Answered| !matches!(answer.outcome, Outcome::Refused(_));
    let asked = |replica: &Member| attempt(replica).is_some_and(|answer| voted(answer) && lately(answer));
    !first && picture.replicas_of(&death.id).iter().any(|replica| asks(replica) || asked(replica))
}

fn attempt<'a>(candidate: &Member<'a>) -> Option<&'a Answered> {
    candidate.pod.answer.as_ref().filter(|answer| matches!(answer.action, Action::Failover(_)))
}

fn name(picture: &Picture, death: &Death) -> String {
    let recorded = picture.recorded_pod(&death.id);
    let pod = death.pod.map(|member| member.name()).or(recorded);
    pod.map_or_else(|| death.id.short().to_owned(), ToString::to_string)
}

/// A primary that was reset by hand does not know the dead one, and never votes for its successor.
fn vote_text(picture: &Picture, death: &Death, candidates: &[Member]) -> String {
    let running = picture.running.filter(|running| running.kind == Kind::Failover);
    let long = running.is_some_and(|running| age(picture.now, running.started_at) > limits::VOTE);
    let waits = format!("a replica of {} to win the vote", name(picture, death));
    match candidates.first().filter(|_| long) {
        Some(best) => format!(
            "{waits}, which the other primaries did not give it so far. If they go on so, run CLUSTER FAILOVER TAKEOVER on {}: what \
             was not replicated is then lost",
            best.name()
        ),
        None => waits,
    }
}

fn majority_text(picture: &Picture, death: &Death, owners: usize) -> String {
    format!(
        "{} {}, and {} of {owners} primaries are left: too few to elect a successor. It goes on when they are back. If they \
         are lost for good, run CLUSTER FAILOVER TAKEOVER on one replica of each shard: what was not replicated is then lost",
        name(picture, death),
        if death.certainty == Certainty::Certain { "is down" } else { "is not heard by anybody" },
        voters(picture),
    )
}

fn older_text(picture: &Picture, death: &Death, candidates: &[Member]) -> String {
    let names: Vec<String> = candidates.iter().map(|member| member.name().to_string()).collect();
    format!(
        "{} is away, and {} is not known to have followed it to the end: it may lack acknowledged writes. It goes on when {} is back; \
         if its volume is lost, run CLUSTER FAILOVER FORCE on {}",
        name(picture, death),
        limits::listed(&names),
        name(picture, death),
        names.first().map_or("it", String::as_str),
    )
}

fn lost_text(picture: &Picture, death: &Death) -> String {
    format!(
        "{} is down and no replica of it answers. It goes on when one of them is back; if their volumes are lost, restore one",
        name(picture, death)
    )
}
