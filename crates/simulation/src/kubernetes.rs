//! The control plane around the pods: the API server, the StatefulSet controller, the garbage collector and the kubelets' part in
//! ending pods. In memory.

use crate::api_server::ApiServer;
use crate::certificates::Stored;
use crate::pod::{Ending, Pod};
use crate::world::{Setup, World};
use pki::Scope;
use planner::{ClaimFacts, CreationFailure, Identity, Observation, PodFacts, Step, WriteFailure};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How often the controllers look, in milliseconds: what they see is a moment old.
const LOOK: u64 = 200;
/// How long a pod takes to end: its sidecar hands over, then Valkey stops.
const ENDING: u64 = 600;
pub const NAMESPACE: &str = "test";
pub const CLUSTER_UID: &str = "cluster-uid";

pub struct Kubernetes {
    pub api: ApiServer,
    pub certificates: Stored,
    /// Most pods the namespace may have.
    pub quota: Option<usize>,
    setup: Setup,
    /// The size that a user set; it is the present one until the operator sets another.
    size_by_hand: Option<u64>,
    failure: Option<CreationFailure>,
}

impl Kubernetes {
    pub fn new(setup: &Setup) -> Result<Kubernetes, String> {
        let scope = Scope::cluster(NAMESPACE, setup.name).map_err(|error| error.to_string())?;
        Ok(Kubernetes {
            api: ApiServer::default(),
            certificates: Stored::new(scope.identity()),
            quota: None,
            setup: setup.clone(),
            size_by_hand: None,
            failure: None,
        })
    }

    pub fn tick(&mut self, world: &mut World) {
        if world.now.is_multiple_of(LOOK) {
            self.collect_garbage(world);
            self.run_stateful_set(world);
        }
        world.end_pods();
    }

    pub fn write(&mut self, step: &Step, world: &mut World) -> Result<(), WriteFailure> {
        let (version, now) = (self.api.version(), world.timestamp());
        let answer = self.api.write(step, &mut world.chance);
        if self.api.version() > version {
            self.certificates.write(step, now);
        }
        if let Step::PatchPod { pod, uid, metadata } = step {
            world.patch_pod(pod, uid, metadata);
        }
        answer
    }

    /// `kubectl scale`.
    pub fn scale_by_hand(&mut self, size: u32) {
        self.size_by_hand = Some(u64::from(size));
        self.api.edit_stateful_set(|set| {
            if let Some(replicas) = set.pointer_mut("/spec/replicas") {
                *replicas = json!(size);
            }
        });
    }

    /// `kubectl delete statefulset`, with its pods or without.
    pub fn delete_stateful_set(&mut self, world: &mut World, with_pods: bool) {
        if !with_pods {
            world.pods.values_mut().for_each(|pod| pod.controller = None);
        }
        self.api.delete_stateful_set();
    }

    /// Pods of a StatefulSet that is gone go too; those of none stay.
    fn collect_garbage(&self, world: &mut World) {
        let uid = self.uid();
        let orphaned = |pod: &&Pod| pod.controller.is_some() && pod.controller != uid;
        let names: Vec<String> = world.pods.values().filter(orphaned).map(|pod| pod.name.clone()).collect();
        names.iter().for_each(|name| world.delete_pod(name, true));
    }

    fn uid(&self) -> Option<String> {
        let uid = self.api.stateful_set()?.pointer("/metadata/uid")?;
        uid.as_str().map(str::to_owned)
    }

    /// Parallel: all missing ordinals are made and all beyond the size are ended at once. OnDelete: no other pod is touched.
    fn run_stateful_set(&mut self, world: &mut World) {
        let Some(set) = self.api.stateful_set().cloned() else { return };
        let size = set.pointer("/spec/replicas").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
        let Some(size) = size else { return };
        let uid = self.uid();
        for pod in world.pods.values_mut().filter(|pod| pod.controller.is_none()) {
            pod.controller.clone_from(&uid);
        }
        for ordinal in 0..size {
            self.make_pod(world, ordinal, &set);
        }
        let beyond = |pod: &&Pod| ordinal(&pod.name).is_some_and(|ordinal| ordinal >= size);
        let names: Vec<String> = world.pods.values().filter(beyond).map(|pod| pod.name.clone()).collect();
        let by_hand = self.size_by_hand == u64::try_from(size).ok();
        names.iter().for_each(|name| world.delete_pod(name, by_hand));
        let generation = set.pointer("/metadata/generation").cloned();
        let status = json!({ "observedGeneration": generation, "replicas": world.pods.len() });
        self.api.edit_stateful_set(|set| {
            if let Some(set) = set.as_object_mut() {
                set.insert("status".to_owned(), status);
            }
        });
    }

    fn make_pod(&mut self, world: &mut World, ordinal: usize, set: &Value) {
        let name = format!("{}-{ordinal}", self.setup.name);
        if world.pods.contains_key(&name) {
            return;
        }
        if self.quota.is_some_and(|quota| world.pods.len() >= quota) {
            let message = format!("create Pod {name} failed: pods \"{name}\" is forbidden: exceeded quota: pods");
            self.failure = Some(CreationFailure { message, at: world.timestamp().as_second() });
            return;
        }
        world.add_pod(&self.setup, ordinal);
        let texts = |part: &str| -> BTreeMap<String, String> {
            let found = set.pointer(&format!("/spec/template/metadata/{part}")).cloned();
            found.and_then(|found| serde_json::from_value(found).ok()).unwrap_or_default()
        };
        if let Some(pod) = world.pods.get_mut(&name) {
            (pod.labels, pod.annotations, pod.controller) = (texts("labels"), texts("annotations"), self.uid());
        }
    }

    /// Everything the operator sees but the nodes.
    pub fn observation(&self, world: &World) -> Observation {
        let cluster = Identity {
            name: self.setup.name.to_owned(),
            namespace: NAMESPACE.to_owned(),
            uid: CLUSTER_UID.to_owned(),
            generation: None,
            deleting: false,
        };
        Observation {
            cluster,
            children: self.api.observed(),
            pods: world.pods.values().map(|pod| pod_facts(pod, world)).collect(),
            claims: if self.setup.persistent { claims(world, self.setup.name) } else { Vec::new() },
            creation_failure: self.failure.clone(),
            certificates: self.certificates.observed(),
            ..Observation::default()
        }
    }
}

impl World {
    /// The API server marks the pod, and its sidecar hands over before Valkey is told to stop.
    pub fn delete_pod(&mut self, name: &str, by_hand: bool) {
        let at = self.now + ENDING;
        match self.pods.get_mut(name) {
            Some(pod) if pod.ending.is_none() => pod.ending = Some(Ending { at, by_hand }),
            _ => return,
        }
        self.hand_over(name);
    }

    /// A kubelet that is cut off ends nothing.
    fn end_pods(&mut self) {
        let due = |pod: &&Pod| {
            pod.ending.is_some_and(|ending| ending.at <= self.now) && !self.cut.contains(&pod.kubernetes_node)
        };
        let names: Vec<String> = self.pods.values().filter(due).map(|pod| pod.name.clone()).collect();
        for name in names {
            self.end_pod(&name);
        }
    }

    fn end_pod(&mut self, name: &str) {
        if self.pods.get(name).and_then(|pod| pod.ending).is_some_and(|ending| ending.by_hand) {
            self.excuse(&[name]);
        } else if self.node(name).is_some_and(|node| !node.slots.is_empty()) {
            self.wrongly_ended = Some(name.to_owned());
        }
        let attached = self.followers(name);
        let Some(mut pod) = self.pods.remove(name) else { return };
        pod.stop(self.saves, attached, self.now);
        if self.persistent {
            self.volumes.insert(name.to_owned(), pod.disk);
        }
    }

    fn patch_pod(&mut self, name: &str, uid: &str, metadata: &Value) {
        let Some(pod) = self.pods.get_mut(name).filter(|pod| pod.uid.to_string() == uid) else { return };
        for (part, texts) in [("labels", &mut pod.labels), ("annotations", &mut pod.annotations)] {
            for (key, value) in metadata.get(part).and_then(Value::as_object).into_iter().flatten() {
                match value.as_str() {
                    Some(text) => drop(texts.insert(key.clone(), text.to_owned())),
                    None => drop(texts.remove(key)),
                }
            }
        }
    }
}

fn ordinal(pod: &str) -> Option<usize> {
    pod.rsplit_once('-')?.1.parse().ok()
}

fn pod_facts(pod: &Pod, world: &World) -> PodFacts {
    let serves = pod.node().is_some_and(|node| node.summary().state_ok && (node.primary.is_none() || node.link_up));
    PodFacts {
        name: pod.name.clone(),
        uid: pod.uid.to_string(),
        labels: pod.labels.clone(),
        annotations: pod.annotations.clone(),
        controller: pod.controller.clone(),
        ip: Some(pod.ip.clone()),
        node: Some(pod.kubernetes_node.clone()),
        terminating: pod.ending.is_some(),
        running: pod.sidecar,
        ready: serves && !world.cut.contains(&pod.kubernetes_node),
        created: pod.created,
        ..PodFacts::default()
    }
}

/// Every pod has a claim, and those that are gone left theirs.
fn claims(world: &World, cluster: &str) -> Vec<ClaimFacts> {
    let mut names: Vec<&String> = world.pods.keys().chain(world.volumes.keys()).collect();
    names.sort();
    names.dedup();
    let claim = |name: &&String| ClaimFacts {
        name: format!("data-{name}"),
        uid: format!("claim-{name}"),
        bound: true,
        requested: "1Gi".to_owned(),
        cluster: Some(cluster.to_owned()),
        ..ClaimFacts::default()
    };
    names.iter().map(claim).collect()
}
