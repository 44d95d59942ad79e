//! Which sidecars are older than the operator, and what replaces them. Pure; a part of `plan`. No pod is restarted on their account.

use crate::observation::Observation;
use crate::pod_facts::PodFacts;
use crate::pods;
use crate::report::Report;
use crate::status::Found;
use api::conditions::Reason;
use api::names;
use manifests::{ValidatedCluster, build_of};
use serde_json::Value;
use std::cmp::Ordering;

/// Operator and sidecars are released together.
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Pods named in the message.
const NAMED: usize = 10;

/// The sidecars beside the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidecarUpdate {
    /// Pods with an older one.
    pub outdated: Vec<String>,
    /// What to do about them, in words.
    pub remedy: String,
    /// The build that was asked for, once the StatefulSet has it.
    pub followed: Option<String>,
}

pub fn sidecar_update(cluster: &ValidatedCluster, observation: &Observation) -> SidecarUpdate {
    let living = observation.pods.iter().filter(|pod| !pod.terminating);
    let outdated = living.filter(|pod| is_outdated(pod, cluster, observation));
    SidecarUpdate {
        outdated: outdated.map(|pod| pod.name.clone()).collect(),
        remedy: remedy(cluster),
        followed: cluster.sidecar_update.clone().filter(|build| has_build(observation.stateful_set(), build)),
    }
}

fn has_build(stateful_set: Option<&Value>, build: &str) -> bool {
    pods::sidecar_image(stateful_set).is_some_and(|image| build_of(image) == build)
}

/// By what the sidecar says of itself, and if that tells no difference, by its image: a build can be renewed under the same version.
fn is_outdated(pod: &PodFacts, cluster: &ValidatedCluster, observation: &Observation) -> bool {
    let said = observation.line.sidecars.iter().find(|sidecar| sidecar.pod_uid == pod.uid);
    let said = said.map(|sidecar| sidecar.version.as_str()).filter(|version| !version.is_empty());
    let image = pod.sidecar_image.as_deref().filter(|_| cluster.spec.sidecar_image.is_none());
    match said.map_or(Ordering::Equal, |version| numbers(version).cmp(&numbers(OWN_VERSION))) {
        Ordering::Less => true,
        Ordering::Equal => image.is_some_and(|image| !same_build(image, &cluster.operators_sidecar_image)),
        Ordering::Greater => false,
    }
}

fn remedy(cluster: &ValidatedCluster) -> String {
    let name = &cluster.name;
    let replace = "delete these pods one at a time, each when Ready is True again";
    match &cluster.spec.sidecar_image {
        Some(own) => {
            format!("spec.sidecarImage asks for {}: name a newer tag or leave it out; then {replace}", own.tag)
        }
        None if same_build(&cluster.sidecar_image, &cluster.operators_sidecar_image) => replace.to_owned(),
        None => format!(
            "kubectl annotate {} {name} --overwrite {}={} gives it to pods that are made from then on; then {replace}",
            names::KIND.to_lowercase(),
            names::annotation::UPDATE_SIDECARS,
            build_of(&cluster.operators_sidecar_image),
        ),
    }
}

pub fn up_to_date(report: &Report) -> Option<Found> {
    let SidecarUpdate { outdated, remedy, .. } = report.sidecar_update.as_ref()?;
    if outdated.is_empty() {
        return Some((true, Reason::SidecarsCurrent, "every sidecar is as new as the operator".to_owned()));
    }
    let pods = api::text::listed(outdated, NAMED);
    Some((
        false,
        Reason::SidecarsOutdated,
        format!("older than the operator's: the sidecars of {pods}. To replace them: {remedy}"),
    ))
}

/// `1.10.0` comes after `1.9.0`; what is behind the numbers does not count.
fn numbers(version: &str) -> Vec<u64> {
    let plain = version.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
    plain.split('.').map_while(|part| part.parse().ok()).collect()
}

/// Whether two references mean the same build, as far as they can be compared. A mirror has another name for it, and a webhook may write
/// the digest behind the tag or in its place.
pub fn same_build(one: &str, two: &str) -> bool {
    let equal = |one: Option<&str>, two: Option<&str>| Some(one? == two?);
    equal(digest(one), digest(two)).or_else(|| equal(tag(one), tag(two))).unwrap_or(digest(one) != digest(two))
}

fn digest(image: &str) -> Option<&str> {
    image.split_once('@').map(|(_, digest)| digest)
}

fn tag(image: &str) -> Option<&str> {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rsplit('/').next().unwrap_or_default();
    last.split_once(':').map(|(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_their_numbers() {
        let in_order = ["0.0.9", "0.1.0", "v0.1.1-rc1", "0.9.0", "0.10.0", "1.0.0+build"];
        assert!(in_order.windows(2).all(|pair| numbers(pair[0]) < numbers(pair[1])));
    }

    #[test]
    fn a_build_is_known_behind_a_mirror_and_with_a_digest() {
        let image = "ghcr.io/valkey-operator/sidecar:v0.1.0";
        let cases = [
            ("registry.example:5000/mirror/sidecar:v0.1.0", true),
            ("ghcr.io/valkey-operator/sidecar:v0.1.0@sha256:00", true),
            ("ghcr.io/valkey-operator/sidecar:v0.2.0", false),
            ("registry.example:5000/sidecar", false),
            ("ghcr.io/valkey-operator/sidecar@sha256:00", true),
        ];
        for (other, same) in cases {
            assert_eq!(same_build(image, other), same, "{other}");
        }
        assert!(!same_build("a/b:v1@sha256:00", "a/b:v1@sha256:11"), "the same tag, built anew");
    }
}
