//! What is told of begin and end of orchestrations. A primary whose pod ends hands over, and may be gone before its successor has said
//! so: that looks like a failure for a moment and is none, so a failover is told of when it is clear that it is one. Pure.

use super::action::Action;
use super::cluster_model::ClusterModel;
use super::decision::Event;
use super::findings;
use super::limits::{self, age, listed};
use super::node_failures::{self, Certainty};
use super::observation::Outcome;
use super::record::{Orchestration, OrchestrationKind, Stage};

/// Whether somebody should hear of it now, if nobody has yet.
pub(crate) fn is_due(model: &ClusterModel, running: &Orchestration) -> bool {
    running.kind != OrchestrationKind::Failover
        || took_over(model, running)
        || is_seen_by_others(model)
        || lasts(model, running)
}

/// A replica took over because it was told to.
fn took_over(model: &ClusterModel, running: &Orchestration) -> bool {
    let answers = model.members.iter().filter_map(|member| member.pod.answer.as_ref());
    let mut answers = answers.filter(|answer| answer.orchestration == running.id && answer.changed);
    answers.any(|answer| matches!(answer.action, Action::Failover(..)) && answer.outcome == Outcome::Done)
}

/// The other nodes call a primary failed: one that handed over, they know as a replica.
fn is_seen_by_others(model: &ClusterModel) -> bool {
    let owners = model.ownership();
    let mut failures = owners.keys().filter_map(|id| node_failures::failure(model, id, owners.len()));
    failures.any(|failure| failure.certainty != Certainty::Certain)
}

/// By now a successor would have said so.
fn lasts(model: &ClusterModel, running: &Orchestration) -> bool {
    running.step != Stage::ReadViews && age(model.now, running.started_at) >= limits::WORD_OF_ROLE
}

/// Begin and end of an orchestration.
pub(crate) fn events(model: &ClusterModel, after: Option<&Orchestration>, formed: bool) -> Vec<Event> {
    let before = model.running;
    let same = before.map(|running| &running.id) == after.map(|running| &running.id);
    let over = before.filter(|_| !same);
    let told = |running: &&Orchestration| running.announced;
    let late = over.filter(|over| !over.announced && is_due_at_its_end(model, over));
    let ended = over.filter(told).or(late).map(|running| ended(model, running, after, formed));
    let known = same && before.is_some_and(|running| running.announced);
    let begun_now = after.filter(told).filter(|_| !known).map(begun);
    late.map(begun).into_iter().chain(ended).chain(begun_now).collect()
}

/// Of one that ended at once only what was done counts.
fn is_due_at_its_end(model: &ClusterModel, over: &Orchestration) -> bool {
    over.kind != OrchestrationKind::Failover || took_over(model, over)
}

fn begun(running: &Orchestration) -> Event {
    let (reason, message) = match running.kind {
        OrchestrationKind::Failover => ("FailoverStarted", "a primary is down; a replica takes over"),
        OrchestrationKind::Form => ("FormationStarted", "the nodes become a cluster"),
        OrchestrationKind::Heal => ("HealStarted", "the nodes become a whole cluster again"),
        OrchestrationKind::Scale => ("ScaleStarted", "the cluster gets the shards and replicas that are asked for"),
    };
    Event {
        about: running.id.clone(),
        warning: running.kind == OrchestrationKind::Failover,
        reason,
        message: message.to_owned(),
    }
}

fn ended(model: &ClusterModel, running: &Orchestration, after: Option<&Orchestration>, formed: bool) -> Event {
    let took = age(model.now, running.started_at).as_millis();
    let doubts = listed(&findings::doubts(model));
    let (reason, what) = match (running.kind, after) {
        (_, Some(next)) if next.kind == OrchestrationKind::Failover => ("Interrupted", "makes way for a failover"),
        (OrchestrationKind::Form, _) if !formed => {
            ("Interrupted", "a node was replaced while the cluster was formed; it is healed first")
        }
        (OrchestrationKind::Form, _) => ("Formed", "every node sees the same cluster with all slots covered"),
        (OrchestrationKind::Failover, _) => ("FailoverDone", "every shard has a primary again"),
        (OrchestrationKind::Heal, _) if !doubts.is_empty() => ("HealUnfinished", doubts.as_str()),
        (OrchestrationKind::Heal, _) => ("Healed", "the nodes were brought together again"),
        (OrchestrationKind::Scale, Some(_)) => ("Interrupted", "something more urgent comes first"),
        (OrchestrationKind::Scale, _) if !doubts.is_empty() => ("ScaleUnfinished", doubts.as_str()),
        (OrchestrationKind::Scale, _) => ("Scaled", "the cluster has the shards and replicas that are asked for"),
    };
    Event { about: running.id.clone(), warning: false, reason, message: format!("{what} (after {took} ms)") }
}
