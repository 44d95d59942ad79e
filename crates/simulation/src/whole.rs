//! The operator with everything it does: `planner::plan` over objects, pods and nodes together, commands to nodes at once, writes in
//! the background one batch at a time. In memory.

use crate::kubernetes::{CLUSTER_UID, Kubernetes, NAMESPACE};
use crate::world::{Setup, World};
use api::cluster::{ValkeyCluster, ValkeyClusterSpec, ValkeyClusterStatus};
use api::conditions::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use manifests::OperatorSettings;
use planner::nodes::{Decision, NodeObservation, PodCommand};
use planner::{
    Identity, LineFacts, Notice, Report, SidecarState, Step, WriteFailure, WriteOutcome, notices, plan, status,
    validate, whole_second,
};
use serde_json::json;

/// How long the API server takes for a batch of writes, in milliseconds.
const WRITING: u64 = 100;

/// What an operator knows and does besides the nodes.
pub struct Whole {
    pub spec: ValkeyCluster,
    pub report: Report,
    /// As it is in the ValkeyCluster.
    pub status: Option<ValkeyClusterStatus>,
    /// Events about its conditions, the oldest first.
    pub notices: Vec<Notice>,
    writing: Option<Batch>,
    failures: Option<Vec<WriteFailure>>,
    /// Failures were told: it is tried again.
    again: bool,
    /// The troubles that the transcript has already.
    transcribed: String,
    seen_version: u64,
}

struct Batch {
    steps: Vec<Step>,
    at: u64,
}

impl Whole {
    pub fn new(setup: &Setup) -> Result<Whole, String> {
        let mut spec = json!({ "masterCount": setup.masters, "replicasPerMaster": setup.replicas });
        if let Some(spec) = spec.as_object_mut().filter(|_| setup.persistent) {
            spec.insert("pvc".to_owned(), json!({ "storageSize": "1Gi" }));
        }
        let cluster = json!({
            "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCluster", "spec": spec,
            "metadata": {
                "name": setup.name, "namespace": NAMESPACE, "uid": CLUSTER_UID, "generation": 1,
                "managedFields": [{ "manager": "user", "fieldsV1": { "f:spec": { "f:masterCount": {} } } }],
            },
        });
        let spec = serde_json::from_value(cluster).map_err(|error| error.to_string())?;
        Ok(Whole {
            spec,
            report: Report::default(),
            status: None,
            notices: Vec::new(),
            writing: None,
            failures: None,
            again: false,
            transcribed: String::new(),
            seen_version: 0,
        })
    }

    /// A user edits the ValkeyCluster.
    pub fn edit(&mut self, edit: impl FnOnce(&mut ValkeyClusterSpec)) {
        edit(&mut self.spec.spec);
        *self.spec.metadata.generation.get_or_insert_default() += 1;
    }

    /// A user deletes it: it is there until its objects are gone.
    pub fn delete(&mut self, world: &World) {
        self.spec.metadata.deletion_timestamp = Some(Time(world.timestamp()));
    }

    /// Ready, and nothing is on its way.
    pub fn is_ready(&self) -> bool {
        self.report.is_settled() && self.writing.is_none() && self.failures.is_none()
    }

    /// The reasons for which the cluster is not as the spec says.
    pub fn troubles(&self) -> impl Iterator<Item = Reason> {
        self.report.troubles.iter().map(|trouble| trouble.reason)
    }

    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// The operator died: the writes that were sent happened, the others did not.
    pub(crate) fn die(&mut self, kubernetes: &mut Kubernetes, world: &mut World) {
        let Some(batch) = self.writing.take() else { return };
        let sent = world.chance.usize(..=batch.steps.len());
        batch.steps.iter().take(sent).for_each(|step| drop(kubernetes.write(step, world)));
        self.failures = None;
    }

    /// Writes that are due happen. True when something changed for the operator to look at.
    pub(crate) fn land(&mut self, kubernetes: &mut Kubernetes, world: &mut World) -> bool {
        let due = self.writing.take_if(|batch| batch.at <= world.now);
        let landed = due.is_some();
        if let Some(batch) = due {
            let answers = batch.steps.iter().map(|step| kubernetes.write(step, world));
            let failures: Vec<WriteFailure> = answers.filter_map(Result::err).collect();
            self.failures = Some(failures).filter(|failures| !failures.is_empty());
        }
        let version = kubernetes.api.version();
        let again = std::mem::take(&mut self.again);
        std::mem::replace(&mut self.seen_version, version) != version || landed || again
    }

    pub(crate) fn plan(
        &mut self,
        kubernetes: &Kubernetes,
        world: &World,
        nodes: NodeObservation,
    ) -> Result<(Decision, Vec<Step>), String> {
        let mut observation = kubernetes.observation(world);
        observation.cluster.generation = self.spec.metadata.generation;
        observation.cluster.deleting = self.spec.metadata.deletion_timestamp.is_some();
        observation.line = line(world, &nodes);
        observation.nodes = Some(nodes);
        let failures = self.failures.take();
        self.again = failures.is_some();
        observation.writes = WriteOutcome { tried: failures.is_some(), failures: failures.unwrap_or_default() };
        let settings = OperatorSettings { sidecar_image: "sidecar:1".to_owned(), line: None };
        let validated = validate(&self.spec, &settings, &observation);
        let plan = plan(validated.as_ref().map_err(Vec::as_slice), &observation, world.timestamp());
        if let Some(unsafe_plan) = plan.report.troubles.iter().find(|trouble| trouble.reason == Reason::UnsafePlan) {
            return Err(format!("{} ms: {}", world.now, unsafe_plan.message));
        }
        let (commands, writes): (Vec<Step>, Vec<Step>) =
            plan.steps.into_iter().partition(|step| step.command().is_some());
        // With writes to be done, what is told is what became of them.
        if writes.is_empty() || observation.writes.tried {
            self.publish(&plan.report, &observation.cluster, world)?;
        }
        let commands: Vec<PodCommand> = commands.iter().filter_map(Step::command).cloned().collect();
        let decision = Decision { commands, ..plan.report.nodes.clone().unwrap_or_default() };
        self.report = plan.report;
        Ok((decision, writes))
    }

    fn publish(&mut self, report: &Report, cluster: &Identity, world: &World) -> Result<(), String> {
        let next = status(report, cluster, self.status.as_ref(), whole_second(world.timestamp()));
        let before = self.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        self.notices.extend(notices(before, &next.conditions));
        let contradiction = contradiction(&next);
        self.status = Some(next);
        contradiction.map_or(Ok(()), |rule| Err(format!("{} ms: {rule}: {:?}", world.now, self.status)))
    }

    /// One batch at a time: what is planned meanwhile is planned again when its outcome is seen.
    pub(crate) fn begin(&mut self, writes: Vec<Step>, now: u64) -> Vec<String> {
        let mut lines = Vec::new();
        if self.writing.is_none() && !writes.is_empty() {
            lines.extend(described(&writes));
            self.writing = Some(Batch { steps: writes, at: now + WRITING });
        }
        let troubles = self.report.troubles.iter().map(|trouble| format!("{}: {}", trouble.reason, trouble.message));
        let troubles = troubles.collect::<Vec<_>>().join("; ");
        if troubles != self.transcribed {
            lines.push(if troubles.is_empty() { "not degraded".to_owned() } else { format!("degraded {troubles}") });
            self.transcribed = troubles;
        }
        lines
    }
}

/// What no status says, whatever was seen.
fn contradiction(status: &ValkeyClusterStatus) -> Option<&'static str> {
    let is = |name: &str, value: &str| status.conditions.iter().any(|it| it.type_ == name && it.status == value);
    let rules = [
        (is("Reconciling", "True") && is("Stalled", "True"), "it is on its way and cannot go on"),
        (is("Stalled", "True") && !is("Degraded", "True"), "it cannot go on, and nothing is wrong"),
        (is("Ready", "True") && is("Available", "False"), "all is as wished, and not everything is served"),
        (
            is("Ready", "False") && is("Reconciling", "False") && is("Stalled", "False"),
            "it is not ready and nothing comes",
        ),
    ];
    rules.into_iter().find(|(holds, _)| *holds).map(|(_, rule)| rule)
}

/// Writes as the transcript tells them; pods that only get new labels are told together.
fn described(writes: &[Step]) -> Vec<String> {
    let pods: Vec<&str> = writes.iter().filter_map(patched).collect();
    let mut lines: Vec<String> =
        writes.iter().filter(|step| patched(step).is_none()).map(|step| format!("write: {step}")).collect();
    if !pods.is_empty() {
        lines.push(format!("write: labels and annotations of {}", pods.join(", ")));
    }
    lines
}

fn patched(step: &Step) -> Option<&str> {
    match step {
        Step::PatchPod { pod, .. } => Some(pod),
        _ => None,
    }
}

fn line(world: &World, nodes: &NodeObservation) -> LineFacts {
    let sidecars = nodes.pods.iter().filter(|pod| pod.connected || pod.last_answer.is_some());
    let state = |pod: &planner::nodes::PodObservation| SidecarState {
        pod_uid: pod.uid.to_string(),
        connected: pod.connected,
        lost: pod.last_answer,
        last_heartbeat: Some(world.timestamp()),
        ..SidecarState::default()
    };
    LineFacts { sidecars: sidecars.map(state).collect(), ..LineFacts::default() }
}
