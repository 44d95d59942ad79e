//! Which modules the nodes have loaded, and who runs without one that it should have. Pure; a part of `plan`.

use crate::observation::Observation;
use crate::pod_facts::PodFacts;
use crate::report::Trouble;
use crate::sidecars::SidecarState;
use api::conditions::Reason;
use api::names::annotation::RESTART_INPUTS;
use manifests::ValidatedCluster;
use manifests::restart::{Inputs, MODULES};
use std::collections::BTreeMap;

/// A module as its nodes call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedModule {
    pub name: String,
    /// The highest, while nodes have several.
    pub version: i64,
    /// How many nodes have it.
    pub pods: usize,
}

/// By name. None while that cannot be told: the leader changed a moment ago, or no node answers.
pub fn loaded(observation: &Observation) -> Option<Vec<LoadedModule>> {
    let mut told = living(observation).filter_map(|pod| modules_of(pod, observation)).peekable();
    if observation.line.returning || told.peek().is_none() {
        return None;
    }
    let mut found: BTreeMap<&str, LoadedModule> = BTreeMap::new();
    for (name, version) in told.flatten() {
        let fresh = || LoadedModule { name: name.clone(), version: *version, pods: 0 };
        let module = found.entry(name).or_insert_with(fresh);
        (module.version, module.pods) = (module.version.max(*version), module.pods + 1);
    }
    Some(found.into_values().collect())
}

/// Valkey does not start without its modules, unless its sidecar is too old to know of them; but it can be told to unload one.
pub fn missing(cluster: &ValidatedCluster, observation: &Observation) -> Option<Trouble> {
    let wanted = cluster.spec.modules.len();
    let lacks = |pod: &&PodFacts| {
        is_made_with(pod, cluster) && modules_of(pod, observation).is_some_and(|modules| modules.len() < wanted)
    };
    let pod = living(observation).find(lacks)?;
    let why = if knows_modules(pod, observation) {
        "somebody unloaded it; it is loaded again when the pod restarts"
    } else {
        "its sidecar is too old to know of them; leave spec.sidecarImage out or name a newer one"
    };
    let message = format!("pod {} runs without a module of spec.modules: {why}", pod.name);
    Some(Trouble { reason: Reason::SettingRefused, message })
}

fn living(observation: &Observation) -> impl Iterator<Item = &PodFacts> {
    observation.pods.iter().filter(|pod| !pod.terminating)
}

fn modules_of<'a>(pod: &PodFacts, observation: &'a Observation) -> Option<&'a BTreeMap<String, i64>> {
    sidecar(pod, observation)?.modules.as_ref()
}

fn knows_modules(pod: &PodFacts, observation: &Observation) -> bool {
    sidecar(pod, observation).is_some_and(|sidecar| sidecar.knows_modules)
}

fn sidecar<'a>(pod: &PodFacts, observation: &'a Observation) -> Option<&'a SidecarState> {
    observation.line.sidecars.iter().find(|sidecar| sidecar.pod_uid == pod.uid && sidecar.connected)
}

/// Whether it was made from the present list.
fn is_made_with(pod: &PodFacts, cluster: &ValidatedCluster) -> bool {
    let inputs: Option<Inputs> = pod.annotations.get(RESTART_INPUTS).and_then(|text| serde_json::from_str(text).ok());
    let wanted = cluster.restart_inputs.get(MODULES);
    wanted.is_some() && inputs.is_some_and(|inputs| inputs.get(MODULES) == wanted)
}
