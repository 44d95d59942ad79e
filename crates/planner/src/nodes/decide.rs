//! The decision: a total function of what is wanted, what was seen, what runs, and the time. Pure; never fails, never waits.

use super::action::{Action, PodCommand};
use super::cluster_model::ClusterModel;
use super::decision::Decision;
use super::limits::{self, LISTED, cut, listed};
use super::observation::{NodeObservation, Outcome, Target};
use super::proposal::{Proposal, command, due};
use super::record::{Answers, Orchestration, OrchestrationKind, Queued, Setback, Stage};
use super::{announcement, departed, failover, findings, form, heal, scale, shards, views};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;
use topology::PodName;

pub fn decide(target: &Target, seen: &NodeObservation, now: Timestamp) -> Decision {
    let model = ClusterModel::new(target, seen, now);
    let mut proposals: Vec<Proposal> = failover::propose(&model).into_iter().collect();
    let unread = is_unread(&model);
    if !unread {
        proposals.extend(form::propose(&model).or_else(|| heal::propose(&model)).or_else(|| scale::propose(&model)));
    }
    let active = proposals.iter().find(|proposal| !proposal.stuck).or(proposals.first());
    let orchestration = match active {
        Some(proposal) => Some(advance(&model, proposal)),
        None => seen.running.clone().filter(|_| unread),
    };
    let forming = proposals.iter().any(|proposal| proposal.kind == OrchestrationKind::Form);
    let shards = shards::shards(&model, !unread && !forming);
    Decision {
        commands: commands(&model, active, &proposals),
        queue: queued(&model, &proposals, active, seen),
        roles: shards::roles(&model),
        serving: shards::serving(&model),
        findings: findings::findings(&model, &proposals),
        plan: plan(&model, &proposals, unread),
        events: announcement::events(&model, orchestration.as_ref(), !shards.is_empty()),
        shards,
        requeue_after: requeue_after(&model, active, unread),
        orchestration,
    }
}

/// A paused cluster is read from and told nothing else; what would be done is not begun, so it is not reported as begun either.
pub fn only_watch(decision: &mut Decision, seen: &NodeObservation) {
    decision.commands.retain(|command| command.action.is_reading());
    begin_nothing(decision, seen);
    decision.requeue_after = decision.requeue_after.map(|soon| soon.max(limits::WATCHING));
}

/// Commands were left out: no orchestration begins, moves on or ends.
pub fn begin_nothing(decision: &mut Decision, seen: &NodeObservation) {
    decision.events.clear();
    decision.orchestration.clone_from(&seen.running);
    decision.queue.clone_from(&seen.queue);
}

/// The record moves on: same kind goes on under its id, a new step raises the version.
fn advance(model: &ClusterModel, proposal: &Proposal) -> Orchestration {
    let now = model.now;
    let fresh = || Orchestration {
        id: format!("{}-{}", kind_name(proposal.kind), now.as_millisecond()),
        kind: proposal.kind,
        step: proposal.step,
        step_version: 1,
        started_at: now,
        step_started_at: now,
        waiting_for: None,
        answers: Answers::default(),
        announced: false,
    };
    let running = model.running.filter(|running| running.kind == proposal.kind);
    let mut next = running.cloned().unwrap_or_else(fresh);
    if next.step != proposal.step {
        next = Orchestration { step: proposal.step, step_version: next.step_version + 1, step_started_at: now, ..next };
    }
    let waits = proposal.waits.iter().chain(proposal.blocked.iter().map(|(_, text)| text)).cloned().collect::<Vec<_>>();
    next.waiting_for = (!waits.is_empty()).then(|| cut(&listed(&waits)));
    next.answers = answers(model, &next);
    next.announced = next.announced || announcement::is_due(model, &next);
    next
}

fn kind_name(kind: OrchestrationKind) -> &'static str {
    match kind {
        OrchestrationKind::Failover => "failover",
        OrchestrationKind::Form => "form",
        OrchestrationKind::Heal => "heal",
        OrchestrationKind::Scale => "scale",
    }
}

/// Every node's latest answer in this step, counted.
fn answers(model: &ClusterModel, running: &Orchestration) -> Answers {
    let mut answers = Answers::default();
    for member in &model.members {
        let answer = member.pod.answer.as_ref();
        let ours = |id: &str, version: u64| id == running.id && version == running.step_version;
        let Some(answer) = answer.filter(|answer| ours(&answer.orchestration, answer.step_version)) else { continue };
        let text = match &answer.outcome {
            Outcome::Done => {
                answers.done += 1;
                continue;
            }
            Outcome::Failed(text) => {
                answers.failed += 1;
                text
            }
            Outcome::Refused(text) => {
                answers.refused += 1;
                text
            }
        };
        let message = cut(&format!("{}: {text}", answer.action));
        answers.troubles.push(Setback { pod: member.name().clone(), message });
    }
    answers.troubles.truncate(LISTED);
    answers
}

fn commands(model: &ClusterModel, active: Option<&Proposal>, proposals: &[Proposal]) -> Vec<PodCommand> {
    let Some(proposal) = active else {
        let limit = if departed::is_any_doubtful(model) { limits::VIEW_AGE } else { Duration::MAX };
        return views::read_older_than(model, limit);
    };
    // A failover that waits for a vote may need voters that know each other: the healing goes on meanwhile.
    let waits = proposal.kind == OrchestrationKind::Failover && proposal.commands.is_empty();
    let proposal = proposals.iter().find(|other| waits && !other.commands.is_empty()).unwrap_or(proposal);
    let urgent = proposal.kind == OrchestrationKind::Failover || proposal.step == Stage::OpenGates;
    if !urgent && views::too_old(model) {
        return views::read_older_than(model, limits::VIEW_AGE);
    }
    let mut commands = paced(model, &proposal.commands);
    let commanded: BTreeSet<PodName> = commands.iter().map(|command| command.pod.clone()).collect();
    let reads_after = commanded.iter().filter_map(|name| read_after(model, name, &commands)).collect::<Vec<_>>();
    commands.extend(reads_after);
    let reads = views::read_older_than(model, poll(model, proposal));
    commands.extend(reads.into_iter().filter(|read| !commanded.contains(&read.pod)));
    commands
}

/// A pod is told all of it now, or nothing yet.
fn paced(model: &ClusterModel, commands: &[PodCommand]) -> Vec<PodCommand> {
    let ready = |command: &&PodCommand| {
        let first = commands.iter().find(|other| other.pod == command.pod).map(|other| &other.action);
        let member = model.by_name(&command.pod);
        member.zip(first).is_some_and(|(member, action)| due(&member, action, model.now))
    };
    commands.iter().filter(ready).cloned().collect()
}

/// Whoever was told something says afterwards what is true now.
fn read_after(model: &ClusterModel, name: &PodName, commands: &[PodCommand]) -> Option<PodCommand> {
    let member = model.by_name(name).filter(|member| member.facts().is_some())?;
    let read = commands.iter().any(|command| command.pod == *name && command.action.is_reading());
    let small = !model.large || member.alone() || views::watchers(model).iter().any(|other| other.name() == name);
    let action = if small { Action::ReadView } else { Action::Probe };
    (!read).then(|| command(&member, action))
}

fn poll(model: &ClusterModel, proposal: &Proposal) -> Duration {
    let waited = model.step_age(proposal.kind).is_some_and(|age| age > limits::PATIENCE);
    match () {
        () if proposal.stuck || waited => limits::POLL_WAITING,
        () if model.large => limits::POLL_LARGE,
        () => limits::POLL,
    }
}

fn requeue_after(model: &ClusterModel, active: Option<&Proposal>, unread: bool) -> Option<Duration> {
    match active {
        Some(proposal) => Some(poll(model, proposal)),
        None if unread => Some(limits::REPEAT_FAILED),
        None if departed::is_any_doubtful(model) => Some(limits::POLL_WAITING),
        // A node that could not tell its view is asked again.
        None if model.members.iter().any(|member| member.is_mute()) => Some(limits::POLL_WAITING),
        None => None,
    }
}

/// What waits for its turn. A kind keeps the time it was first wanted.
fn queued(
    model: &ClusterModel,
    proposals: &[Proposal],
    active: Option<&Proposal>,
    seen: &NodeObservation,
) -> Vec<Queued> {
    let active = active.map(|proposal| proposal.kind);
    let waiting = proposals.iter().filter(|proposal| Some(proposal.kind) != active);
    let entry = |proposal: &Proposal| {
        let before = seen.queue.iter().find(|queued| queued.kind == proposal.kind);
        let since = before.map_or(model.now, |queued| queued.since);
        Queued { kind: proposal.kind, since, why: cut(&sentence(proposal)) }
    };
    let mut queue: Vec<Queued> = waiting.map(entry).collect();
    queue.extend(interrupted_scale(model, proposals, active, seen));
    queue
}

/// Slots that are on their way when something more urgent comes up: nobody could tell from the nodes that more were to follow.
fn interrupted_scale(
    model: &ClusterModel,
    proposals: &[Proposal],
    active: Option<OrchestrationKind>,
    seen: &NodeObservation,
) -> Option<Queued> {
    let was_running = seen.running.as_ref().filter(|running| running.kind == OrchestrationKind::Scale);
    let was_waiting = seen.queue.iter().find(|queued| queued.kind == OrchestrationKind::Scale);
    let proposed = proposals.iter().any(|proposal| proposal.kind == OrchestrationKind::Scale);
    let makes_way = active.is_some_and(|kind| kind != OrchestrationKind::Scale);
    let is_lost = !proposed && (makes_way || was_waiting.is_some() && active.is_none() && is_unread(model));
    let since = was_waiting.map(|queued| queued.since).or(was_running.map(|running| running.started_at));
    let why = || format!("{}: goes on afterwards", kind_name(OrchestrationKind::Scale));
    since.filter(|_| is_lost).map(|since| Queued { kind: OrchestrationKind::Scale, since, why: why() })
}

fn is_unread(model: &ClusterModel) -> bool {
    !views::missing(model).is_empty()
}

fn plan(model: &ClusterModel, proposals: &[Proposal], unread: bool) -> Vec<String> {
    // While slots move their owners are busy for a moment, and what they see is read afterwards.
    let moving = model.running.filter(|running| running.kind == OrchestrationKind::Scale && unread);
    let moving = moving.map(|running| Proposal::new(running.kind, running.step, Vec::new()));
    proposals.iter().chain(&moving).map(|proposal| cut(&sentence(proposal))).take(LISTED).collect()
}

fn sentence(proposal: &Proposal) -> String {
    let doing = match proposal.step {
        Stage::AwaitPods => "waiting for the pods",
        Stage::ReadViews => "reading every node's view",
        Stage::Promote => "a replica takes over from a dead primary",
        Stage::OpenGates => "letting nodes start that wait for it",
        Stage::AssignSlots => "assigning slots",
        Stage::MeetPrimaries => "introducing the primaries to each other",
        Stage::Meet => "introducing the nodes to each other",
        Stage::Replicate => "making nodes replicas",
        Stage::Forget => "forgetting nodes that are gone",
        Stage::MoveSlots => "moving slots",
        Stage::HandOver => "handing over to pods that stay",
        Stage::Leave => "nodes leave the cluster",
        Stage::Verify => "comparing every node's view",
    };
    let waits: Vec<String> =
        proposal.waits.iter().chain(proposal.blocked.iter().map(|(_, text)| text)).cloned().collect();
    let detail = proposal.detail.as_ref().map(|detail| format!(", {detail}")).unwrap_or_default();
    match waits.is_empty() {
        true => format!("{}: {doing}{detail}", kind_name(proposal.kind)),
        false => format!("{}: {doing}{detail}; waiting for: {}", kind_name(proposal.kind), listed(&waits)),
    }
}
