//! What is wrong with the pods and their volumes, in the words of the conditions. Pure; a part of `plan`.
//! Messages hold nothing that changes from try to try (counts, back-off times), so that one trouble is reported once.

use crate::claim_facts::ClaimFacts;
use crate::observation::{CreationFailure, Observation};
use crate::pod_facts::{ContainerFacts, PodFacts};
use crate::remedies;
use crate::report::Trouble;
use api::conditions::Reason;
use api::names::{container, label};
use k8s_openapi::jiff::Timestamp;

/// A claim that has no volume after this many seconds is worth telling: many provisioners take some.
const VOLUME_PATIENCE: i64 = 15;
/// Seconds in which the scheduler may find a node after all: it tries again when the first try came too early.
const SCHEDULING_PATIENCE: i64 = 3;
/// Two who write the same object at once: whoever is late tries again by himself, and this many seconds are enough.
const RACE: (&str, i64) = ("the object has been modified", 30);
/// A pod that runs is ready long before so many seconds when its containers can work with each other.
const IDS_PATIENCE: i64 = 60;
/// What the kubelet says while an image does not come.
const PULL_FAILURES: [&str; 5] =
    ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"];
/// What the kubelet says when a container cannot start.
const START_FAILURES: [&str; 2] = ["RunContainerError", "StartError"];
/// What it says when one ended, and waits before it starts it again.
const BACK_OFF: &str = "CrashLoopBackOff";
/// So many ends in a row are a loop.
const LOOP: i32 = 3;
/// The kubelet waits up to five minutes between two tries. After a run of ten it begins to count anew, and so do we.
const LONGEST_PAUSE: i64 = 600;
/// What the kubelet says when it lacks something to make a container.
const SETUP_FAILURES: [&str; 3] = ["CreateContainerConfigError", "CreateContainerError", "PreStartHookError"];

/// One entry per reason: the first pod's message, and how many pods more.
pub fn troubles(observation: &Observation, missing: &[String], now: Timestamp) -> Vec<Trouble> {
    let living = observation.pods.iter().filter(|pod| !pod.terminating);
    let mut found: Vec<(Reason, String)> = living.filter_map(|pod| pod_trouble(pod, observation, now)).collect();
    let failure =
        observation.creation_failure.as_ref().filter(|failure| !missing.is_empty() && is_current(failure, observation));
    found.extend(failure.map(|failure| creation_trouble(&failure.message)));
    let mut reasons: Vec<Reason> = found.iter().map(|(reason, _)| *reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons.into_iter().map(|reason| merge(reason, &found)).collect()
}

fn merge(reason: Reason, found: &[(Reason, String)]) -> Trouble {
    let mut messages = found.iter().filter(|(other, _)| *other == reason).map(|(_, message)| message);
    let first = messages.next().cloned().unwrap_or_default();
    let message = match messages.count() {
        0 => first,
        more => format!("{first} (and {more} more)"),
    };
    Trouble { reason, message }
}

fn pod_trouble(pod: &PodFacts, observation: &Observation, now: Timestamp) -> Option<(Reason, String)> {
    let claim = observation.claims.iter().find(|claim| !pod.running && !claim.bound && claim.belongs_to(&pod.name));
    let age = |since: i64| now.as_second() - since;
    let container = || pod.containers.iter().find_map(|container| container_trouble(pod, container, now));
    let lasting = pod.unschedulable.as_ref().filter(|(message, since)| age(*since) >= patience(message));
    let unschedulable = || lasting.map(|(message, _)| scheduling_trouble(pod, message));
    let said = |claim: &ClaimFacts| {
        claim.failure.as_deref().is_some_and(|text| !is_race(text) || age(claim.created) >= RACE.1)
    };
    let (reason, message) = match claim {
        Some(claim) if said(claim) => claim_trouble(pod, claim),
        // A pod cannot be scheduled without its volume; the real cause is told a moment later.
        Some(claim) if age(claim.created) < VOLUME_PATIENCE => None,
        Some(claim) => unschedulable().or_else(|| Some(overdue_trouble(pod, claim))),
        None => unschedulable().or_else(container).or_else(|| without_ids(pod, age(pod.created))),
    }?;
    Some((reason, format!("{message}{}", remedies::of(pod, reason, observation))))
}

/// Where nobody gave the pod ids, its containers may run as different users, who keep each other from the files that they share.
fn without_ids(pod: &PodFacts, age: i64) -> Option<(Reason, String)> {
    let served = pod.ready || pod.labels.contains_key(label::ROLE);
    let text = || format!("pod {} does not become ready", pod.name);
    (pod.without_group && !served && age >= IDS_PATIENCE).then(|| (Reason::PodFailing, text()))
}

fn patience(message: &str) -> i64 {
    if is_race(message) { RACE.1 } else { SCHEDULING_PATIENCE }
}

fn is_race(message: &str) -> bool {
    message.contains(RACE.0)
}

fn scheduling_trouble(pod: &PodFacts, message: &str) -> (Reason, String) {
    let reason = if names_missing_class(message) { Reason::StorageClassMissing } else { Reason::PodUnschedulable };
    (reason, format!("pod {} cannot be scheduled: {message}", pod.name))
}

fn names_missing_class(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("storageclass") && message.contains("not found")
}

/// What the volume controllers said about a claim explains more than that its pod cannot be scheduled.
fn claim_trouble(pod: &PodFacts, claim: &ClaimFacts) -> Option<(Reason, String)> {
    let failure = claim.failure.as_deref()?;
    let reason = if names_missing_class(failure) { Reason::StorageClassMissing } else { Reason::VolumePending };
    Some((reason, format!("PersistentVolumeClaim {} of pod {} gets no volume: {failure}", claim.name, pod.name)))
}

fn container_trouble(pod: &PodFacts, container: &ContainerFacts, now: Timestamp) -> Option<(Reason, String)> {
    let (name, pod_name) = (&container.name, &pod.name);
    let (reason, message) = container.waiting.as_ref().map_or(("", ""), |(reason, message)| (reason, message));
    if PULL_FAILURES.contains(&reason) {
        let text = format!(
            "image {} of container {name} in pod {pod_name} cannot be pulled: {}",
            container.image,
            cause(message)
        );
        return Some((Reason::ImagePullFailed, text));
    }
    if let Some(failure) = crash(container, reason, now) {
        return Some((crash_reason(name), format!("container {name} of pod {pod_name} keeps ending with {failure}")));
    }
    if START_FAILURES.contains(&reason) {
        return Some((crash_reason(name), format!("container {name} of pod {pod_name} cannot be started: {message}")));
    }
    let text = || format!("container {name} of pod {pod_name} cannot be made: {message}");
    SETUP_FAILURES.contains(&reason).then(|| (Reason::PodFailing, text()))
}

/// One end is no loop: it has to happen again and again, and not long ago. Between two crashes a container runs for a moment,
/// so its last end counts until it is ready.
fn crash<'a>(container: &'a ContainerFacts, waiting: &str, now: Timestamp) -> Option<&'a str> {
    let backs_off = waiting == BACK_OFF;
    let often = container.restarts + i32::from(backs_off) >= LOOP;
    let in_order = ("exit code 0", now.as_second());
    let last = container.failure.as_ref().map(|(failure, at)| (failure.as_str(), *at));
    let (failure, at) = last.or(backs_off.then_some(in_order)).filter(|_| !container.ready && often)?;
    let in_a_row = backs_off || now.as_second() - at < LONGEST_PAUSE && container.ran < LONGEST_PAUSE;
    in_a_row.then_some(failure)
}

fn crash_reason(name: &str) -> Reason {
    match name {
        container::VALKEY => Reason::ValkeyCrashLooping,
        container::SIDECAR => Reason::SidecarCrashLooping,
        _ => Reason::PodFailing,
    }
}

/// The kubelet wraps the same cause in two ways by turns, and names another local port ("a:1->b:2") each time.
fn cause(message: &str) -> String {
    let message = message.rsplit_once("ErrImagePull: ").map_or(message, |(_, cause)| cause);
    message.split(": ").filter(|part| !part.contains("->")).collect::<Vec<_>>().join(": ")
}

fn overdue_trouble(pod: &PodFacts, claim: &ClaimFacts) -> (Reason, String) {
    let class = claim.storage_class.as_deref().unwrap_or("the default one");
    let message =
        format!("PersistentVolumeClaim {} of pod {} has no volume yet (StorageClass: {class})", claim.name, pod.name);
    (Reason::VolumePending, message)
}

/// A pod that was made later than the failure shows that it is over.
fn is_current(failure: &CreationFailure, observation: &Observation) -> bool {
    observation.pods.iter().all(|pod| pod.created <= failure.at)
}

fn creation_trouble(message: &str) -> (Reason, String) {
    let reason = if message.contains("exceeded quota") { Reason::QuotaExceeded } else { Reason::PodFailing };
    (reason, format!("pods cannot be created: {message}"))
}
