//! The plan: what the cluster shall be now, what to do for it, and what to say about it. Pure, total, never waits. Modules propose
//! over the same observation (`objects`, `nodes`); this file orders what they propose and has all of it checked.

use crate::child::{ChildKey, ChildKind};
use crate::json;
use crate::manifest::Manifests;
use crate::nodes::{self, Decision, FindingKind, Target};
use crate::observation::{Observation, WriteFailure};
use crate::report::{Asked, Report};
use crate::safety;
use crate::step::Step;
use crate::{
    gifts, identities, manifest, min_replicas, modules, objects, parameters, pod_labels, pods, returning, shape,
    sidecar_updates, sidecars, storage, troubles,
};
use api::cluster::effective::{self, EffectiveSpec, Layers, SecurityContext};
use api::cluster::{ValkeyCluster, ValkeyClusterSpec, ownership};
use api::conditions::Reason;
use api::names::{self, port};
use api::node_settings::{NODE_TIMEOUT, NodeSettings, SETTINGS_FILE};
use api::quantity::Quantity;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::jiff::Timestamp;
use manifests::{Live, OperatorSettings, Problem, Shape, ValidatedCluster};
use serde::Deserialize;
use std::borrow::Cow;

/// What to do now, in this order, and the findings it follows from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What the pods shall be now, on the way to the spec; None when the spec cannot be read.
    pub shape: Option<Shape>,
    pub steps: Vec<Step>,
    pub report: Report,
}

/// Reads the spec once; what is live decides what of it may change now.
pub fn validate(
    cluster: &ValkeyCluster,
    settings: &OperatorSettings,
    observation: &Observation,
) -> Result<ValidatedCluster, Vec<Problem>> {
    let stateful_set = observation.stateful_set().and_then(|object| StatefulSet::deserialize(object).ok());
    let live = stateful_set.as_ref().map(Live::of);
    let running = running(live.as_ref(), observation);
    let mut effective = effective::resolve(Layers { running: Some(&running), ..Layers::of(&written(cluster)) });
    effective.spec.security_context = ids(effective.spec.security_context, cluster, live.is_some());
    let live = live.map(|live| {
        let storage_size = live.storage_size.clone().filter(|size| !may_follow(size, &effective.spec, observation));
        Live { storage_size, ..live }
    });
    ValidatedCluster::parse(&cluster.metadata, effective, settings, live.as_ref())
}

/// What is left out stays as it is.
fn running(live: Option<&Live>, observation: &Observation) -> ValkeyClusterSpec {
    let shards = shape::recorded_shards(observation).and_then(|shards| i32::try_from(shards).ok());
    ValkeyClusterSpec { master_count: shards, ..live.map(Live::running).unwrap_or_default() }
}

/// The spec without what nobody wrote: the API server fills in a masterCount, and whoever takes it out of a manifest does not ask for
/// that number.
fn written(cluster: &ValkeyCluster) -> Cow<'_, ValkeyClusterSpec> {
    let may_be_filled_in = cluster.spec.master_count == Some(effective::built_in::MASTER_COUNT);
    if !may_be_filled_in || ownership::sets_master_count(&cluster.metadata) {
        return Cow::Borrowed(&cluster.spec);
    }
    Cow::Owned(ValkeyClusterSpec { master_count: None, ..cluster.spec.clone() })
}

/// Without its StatefulSet a cluster that was formed tells only in its status that the platform chose its ids. One that does not comes
/// from before that meaning of an empty context, and has the built-in ones.
fn ids(wanted: SecurityContext, cluster: &ValkeyCluster, has_stateful_set: bool) -> SecurityContext {
    let Some(status) = cluster.status.as_ref().filter(|status| !has_stateful_set && !status.shards.is_empty()) else {
        return wanted;
    };
    let has_ids = wanted.is_the_platforms() && status.platform_ids != Some(true);
    if has_ids { SecurityContext::built_in() } else { wanted }
}

/// The template's size follows the spec's upwards, once the claims have.
fn may_follow(live_size: &str, spec: &EffectiveSpec, observation: &Observation) -> bool {
    let asked = spec.pvc.as_ref().and_then(|pvc| Quantity::parse(&pvc.storage_size).ok());
    let grows = |asked: Quantity| Quantity::parse(live_size).is_ok_and(|size| size < asked);
    asked.is_some_and(|asked| grows(asked) && storage::all_grown(asked, &observation.pods, &observation.claims))
}

pub fn plan(validated: Result<&ValidatedCluster, &[Problem]>, observation: &Observation, now: Timestamp) -> Plan {
    let mut report = Report { deleting: observation.cluster.deleting, ..Report::default() };
    report.has_stateful_set = observation.stateful_set().is_some();
    match validated {
        Err(problems) => invalid(problems, observation, report, now),
        Ok(cluster) => valid(cluster, observation, report, now),
    }
}

/// Nothing is touched on account of a spec that cannot be read but certificates, which end; the pods are still reported on.
fn invalid(problems: &[Problem], observation: &Observation, mut report: Report, now: Timestamp) -> Plan {
    let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    report.trouble(Reason::InvalidSpec, text);
    let count = observation.stateful_set().map(pods::asked_for).unwrap_or_default();
    report.ready_pods = pods::ready(observation, count);
    report.sidecars = sidecars::sidecars(observation, count, now);
    report.troubles.extend(troubles::troubles(observation, &[], now));
    report.troubles.extend(pod_labels::mislabelled(observation));
    report.troubles.extend(pod_labels::foreign(observation));
    let identities = if report.deleting { Vec::new() } else { identities::steps(observation, &mut report, now) };
    let target = recorded_target(observation);
    let reads =
        target.iter().flat_map(|target| node_commands(target, observation, &mut report, now)).map(Step::Command);
    let steps = reads.chain(identities).collect();
    let steps = safe(steps, target.as_ref(), observation, &mut report, now);
    Plan { steps, report, shape: None }
}

fn valid(cluster: &ValidatedCluster, observation: &Observation, mut report: Report, now: Timestamp) -> Plan {
    report.paused = cluster.spec.paused;
    let cluster = min_replicas::in_effect(cluster, observation, &mut report);
    let cluster = cluster.as_ref();
    let shape = shape::shape(cluster, observation);
    let target = target(cluster, &shape);
    let mut commands = node_commands(&target, observation, &mut report, now);
    gifts::hold_back(&mut commands, observation, &mut report);
    let manifests = manifest::child_manifests(cluster, &shape);
    let writes =
        if report.deleting { Vec::new() } else { writes(cluster, &shape, &manifests, observation, &mut report) };
    describe_pods(cluster, &shape, &manifests, observation, &mut report, now);
    describe_writes(&writes, observation, &mut report);
    let identities = if report.deleting { Vec::new() } else { identities::steps(observation, &mut report, now) };
    let writes = if report.paused { Vec::new() } else { writes };
    let nudge =
        if report.paused || report.deleting { None } else { pods::nudge(observation, &report.missing_pods, now) };
    // Commands first: a failover does not wait for the API server. Then certificates: pods wait for them.
    let steps = commands.into_iter().map(Step::Command).chain(identities).chain(writes).chain(nudge).collect();
    let steps = safe(steps, Some(&target), observation, &mut report, now);
    Plan { shape: Some(shape), steps, report }
}

/// Before the writes were tried all are pending; afterwards those that failed, and refused ones are troubles that somebody has to look at.
fn describe_writes(writes: &[Step], observation: &Observation, report: &mut Report) {
    let outcome = &observation.writes;
    if !outcome.tried {
        report.pending = writes.iter().map(ToString::to_string).collect();
        return;
    }
    // A certificate that could not be made stands in nobody's way before the present one ends.
    let planned = |failure: &&WriteFailure| writes.iter().any(|step| step.to_string() == failure.step);
    let (failed, beside): (Vec<_>, Vec<_>) = outcome.failures.iter().partition(planned);
    report.waiting.extend(beside.iter().map(|failure| format!("{} failed: {}", failure.step, failure.detail)));
    report.pending = failed.iter().map(|failure| failure.step.clone()).collect();
    for WriteFailure { step, detail, .. } in failed.iter().filter(|failure| failure.refused) {
        let reason = if detail.contains("exceeded quota") { Reason::QuotaExceeded } else { Reason::ObjectRefused };
        report.trouble(reason, format!("cannot {step}: {detail}"));
    }
}

/// What the nodes shall be: the shape, not the spec.
fn target(cluster: &ValidatedCluster, shape: &Shape) -> Target {
    Target {
        cluster: cluster.name.to_string(),
        masters: usize::try_from(shape.primaries).unwrap_or(usize::MAX),
        replicas_per_master: usize::try_from(shape.replicas_per_primary).unwrap_or(usize::MAX),
        persistent: cluster.storage.is_some(),
        node_timeout: NODE_TIMEOUT,
        min_replicas_to_write: usize::try_from(cluster.spec.replication.min_replicas_to_write).unwrap_or_default(),
    }
}

/// What the nodes were: enough to say how they are, while the spec does not say what they shall be.
fn recorded_target(observation: &Observation) -> Option<Target> {
    let (shards, replicas) = shape::recorded_layout(observation)?;
    Some(Target {
        cluster: observation.cluster.name.clone(),
        masters: usize::try_from(shards).unwrap_or(usize::MAX),
        replicas_per_master: usize::try_from(replicas).unwrap_or(usize::MAX),
        persistent: !observation.claims.is_empty(),
        node_timeout: NODE_TIMEOUT,
        min_replicas_to_write: stored_min_replicas_to_write(observation).unwrap_or_default(),
    })
}

/// As the pods have it, whatever the spec would say.
pub(crate) fn stored_min_replicas_to_write(observation: &Observation) -> Option<usize> {
    let key = ChildKey::new(ChildKind::ConfigMap, names::config_map(&observation.cluster.name));
    let text = json::text(observation.object(&key)?, &format!("/data/{SETTINGS_FILE}"))?;
    let settings: NodeSettings = serde_json::from_str(text).ok()?;
    settings.parameters.get("min-replicas-to-write")?.parse().ok()
}

/// What to tell the nodes. A cluster that is being deleted is told nothing more; one that is paused, or whose
/// spec cannot be read, is only read from.
fn node_commands(
    target: &Target,
    observation: &Observation,
    report: &mut Report,
    now: Timestamp,
) -> Vec<nodes::PodCommand> {
    let Some(seen) = observation.nodes.as_ref().filter(|_| !report.deleting) else { return Vec::new() };
    let mut decision = nodes::decide(target, seen, now);
    if report.paused || report.troubles.iter().any(|trouble| trouble.reason == Reason::InvalidSpec) {
        nodes::only_watch(&mut decision, seen);
    }
    let commands = std::mem::take(&mut decision.commands);
    report.troubles.extend(wrong(&decision));
    report.nodes_returning = returning::are_returning(observation);
    report.nodes = Some(decision);
    commands
}

fn wrong(decision: &Decision) -> Vec<crate::report::Trouble> {
    let wrong =
        decision.findings.iter().filter(|found| found.kind == FindingKind::Degraded && found.status == Some(true));
    wrong.map(|found| crate::report::Trouble { reason: found.reason, message: found.message.clone() }).collect()
}

fn writes(
    cluster: &ValidatedCluster,
    shape: &Shape,
    manifests: &Manifests,
    observation: &Observation,
    report: &mut Report,
) -> Vec<Step> {
    let mut steps = objects::steps(manifests, observation, report);
    steps.extend(storage::steps(cluster, shape, observation, report));
    steps.extend(pods::steps(cluster, manifests, observation, report));
    steps
}

/// A mistake of ours must not reach the data: what breaks a rule is left out and told, and nothing is said of it as if it were done.
fn safe(
    steps: Vec<Step>,
    target: Option<&Target>,
    observation: &Observation,
    report: &mut Report,
    now: Timestamp,
) -> Vec<Step> {
    let commands = |steps: &[Step]| steps.iter().filter(|step| step.command().is_some()).count();
    let planned = commands(&steps);
    let (safe, violations) = safety::only_safe(steps, target, observation, now);
    if let Some((decision, seen)) = report.nodes.as_mut().zip(observation.nodes.as_ref())
        && commands(&safe) < planned
    {
        nodes::begin_nothing(decision, seen);
    }
    report.pending.retain(|pending| !violations.iter().any(|violation| violation.step == *pending));
    if let Some(first) = violations.first() {
        let text = format!("a plan was dropped because it would endanger data, please report this: {first}");
        report.trouble(Reason::UnsafePlan, text);
    }
    safe
}

fn describe_pods(
    cluster: &ValidatedCluster,
    shape: &Shape,
    manifests: &Manifests,
    observation: &Observation,
    report: &mut Report,
    now: Timestamp,
) {
    report.asked = Some(asked(cluster, shape));
    report.ready_pods = pods::ready(observation, shape.pods);
    report.unready_pods = pods::unready(observation, shape.pods);
    report.missing_pods = pods::missing(observation, shape.pods);
    report.sidecars = sidecars::sidecars(observation, shape.pods, now);
    report.restart = pods::restart_needs(manifests, observation);
    report.sidecar_update = Some(sidecar_updates::sidecar_update(cluster, observation));
    report.modules = modules::loaded(observation);
    let found = troubles::troubles(observation, &report.missing_pods, now);
    report.troubles.extend(found);
    report.troubles.extend(sidecars::refused_settings(observation));
    report.troubles.extend(modules::missing(cluster, observation));
    report.troubles.extend(pod_labels::mislabelled(observation).filter(|_| report.paused));
    report.troubles.extend(pod_labels::foreign(observation));
    report.waiting.extend(pod_labels::released(observation));
    report.unknown_parameters = parameters::unknown(cluster, observation);
    if report.has_stateful_set && !observation.stateful_set_is_noticed() {
        report
            .waiting
            .push(format!("the StatefulSet controller has not yet seen the latest StatefulSet {}", cluster.name));
    }
}

fn asked(cluster: &ValidatedCluster, shape: &Shape) -> Asked {
    let headless = names::headless_service(&cluster.name);
    let endpoint = format!("http://{headless}.{}.svc:{}/metrics", cluster.namespace, port::EXPORTER);
    Asked {
        version: cluster.version,
        replicas_per_master: shape.replicas_per_primary,
        pods: shape.pods,
        exporter: cluster.exporter.as_ref().map(|_| endpoint),
        platform_ids: cluster.spec.security_context.is_the_platforms(),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
