//! The certificates of a cluster's sidecars: which to make, which objects show them, which pods are told. Pure; a part of `plan`.

use crate::differences::differences;
use crate::digest;
use crate::observation::{Identity, Observation};
use crate::pod_facts::PodFacts;
use crate::report::Report;
use crate::status::whole_second;
use crate::step::Step;
use api::certificates::{
    Purpose, ValkeyCertificateBinding, ValkeyCertificateBindingSpec, ValkeyCertificateBundle,
    ValkeyCertificateBundleSpec, names,
};
use api::conditions::Reason;
use api::names as common;
use api::names::{API_VERSION, KIND, annotation};
use certificates::{
    ClusterPlan, ClusterView, Found, Leaf, LeafStep, Policy, Why, binding_spec, binding_status, bundle_status,
    cluster_plan,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use pki::SpiffeId;
use serde::Serialize;
use serde_json::{Value, json};

/// What was read of the certificates of a cluster's sidecars.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Certificates {
    /// They come from elsewhere: nothing is made here.
    #[default]
    Elsewhere,
    /// This process has not read them yet.
    Unread,
    /// They can be neither judged nor made now; why.
    Waiting(String),
    Read(Box<CertificatesRead>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CertificatesRead {
    pub view: ClusterView,
    pub policy: Policy,
    /// Whose the certificates are.
    pub id: SpiffeId,
    pub bundle: Option<ValkeyCertificateBundle>,
    pub binding: Option<ValkeyCertificateBinding>,
    /// When the Secret that the pods mount was last written.
    pub written: Timestamp,
    /// A Secret of a name that is needed and that is somebody else's.
    pub foreign: Option<String>,
    /// A Secret of this cluster that somebody made immutable.
    pub immutable: Option<String>,
    /// What this process made last; it tells why.
    pub made: Option<Made>,
}

/// A leaf that was made, why, and why the intermediate above it was, if it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub leaf: pki::Thumbprint,
    pub why: Why,
    pub intermediate: Option<Why>,
}

/// What is said about certificates, beside the steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CertificateReport {
    /// When something will be due, if nothing else happens.
    pub next: Option<Timestamp>,
    /// Something is due and waits for the end of an orchestration.
    pub postponed: bool,
    /// Statuses of the objects that show certificates, as far as they are others than published.
    pub statuses: Vec<OtherStatus>,
}

/// The status of another object of ours, published together with the cluster's.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherStatus {
    pub kind: &'static str,
    /// For metrics.
    pub written_as: &'static str,
    pub name: String,
    pub uid: String,
    pub status: Value,
}

pub const BUNDLE: &str = "ValkeyCertificateBundle";
pub const BINDING: &str = "ValkeyCertificateBinding";
const BUNDLE_STATUS: &str = "ValkeyCertificateBundle/status";
const BINDING_STATUS: &str = "ValkeyCertificateBinding/status";

impl Certificates {
    /// Whether new pods would find the certificate that their sidecars need; if not, what the pods wait for.
    pub fn ready(&self, paused: bool) -> Result<(), &'static str> {
        match self {
            Certificates::Elsewhere => Ok(()),
            Certificates::Unread => Err("the identity of its sidecars was checked"),
            Certificates::Read(read) if read.view.leaf.whole().is_some() || read.is_left_alone(paused) => Ok(()),
            Certificates::Waiting(_) | Certificates::Read(_) => Err("there is an identity for its sidecars"),
        }
    }
}

impl CertificatesRead {
    /// A paused cluster that never had certificates gets none.
    fn is_left_alone(&self, paused: bool) -> bool {
        paused && self.bundle.is_none()
    }
}

/// Certificates are looked after also while a cluster is paused, or its spec cannot be read: its sidecars would be cut off.
pub fn steps(observation: &Observation, report: &mut Report, now: Timestamp) -> Vec<Step> {
    let read = match &observation.certificates {
        Certificates::Read(read) if !read.is_left_alone(report.paused) => read,
        Certificates::Waiting(what) => {
            report.waiting.push(format!("waits for {what}"));
            return Vec::new();
        }
        _ => return Vec::new(),
    };
    let orchestrating = read.view.orchestrating || is_orchestrated(observation, report);
    let view = ClusterView { orchestrating, ..read.view.clone() };
    let plan = cluster_plan(&view, &read.policy, now);
    if let Some(secret) = &read.foreign {
        report.trouble(Reason::NameTaken, taken_text(secret));
    } else if let Some(missing) = missing(&view) {
        report.waiting.push(format!("waits for the certificate of the sidecars: {missing}"));
    }
    if let Some(secret) = &read.immutable {
        report.trouble(Reason::ObjectRefused, immutable_text(secret));
    }
    report.certificates = CertificateReport {
        next: plan.next,
        postponed: matches!(plan.leaf, LeafStep::Postpone(_)),
        statuses: statuses(read, &view, &with_reason_of_last(read, &plan), whole_second(now)),
    };
    let made = making(&view, &plan);
    if !made.is_empty() {
        // What shows them, and who is told of them, follows when they are there.
        return made;
    }
    let mut steps = showing(read, &view, &observation.cluster, now);
    steps.extend(telling(read, &observation.pods));
    steps
}

fn taken_text(secret: &str) -> String {
    format!(
        "Secret {secret} is in the way and is left alone: this operator did not make it. Give the ValkeyCluster another name, or delete \
         the Secret once it is certain that nobody needs it"
    )
}

fn immutable_text(secret: &str) -> String {
    format!(
        "Secret {secret} was made immutable, so the certificates in it cannot be renewed and will end: delete it, and the operator makes \
         it anew at once; pods go on with what they have"
    )
}

/// Certificates do not change under the hands of an orchestration, if they can wait.
fn is_orchestrated(observation: &Observation, report: &Report) -> bool {
    let running = observation.nodes.as_ref().is_some_and(|nodes| nodes.running.is_some());
    running || report.nodes.as_ref().is_some_and(|nodes| nodes.orchestration.is_some())
}

fn missing(view: &ClusterView) -> Option<String> {
    match &view.leaf {
        Found::Whole(_) => None,
        Found::Unreadable(why) => Some(why.clone()),
        other => other.lack(),
    }
}

fn making(view: &ClusterView, plan: &ClusterPlan) -> Vec<Step> {
    let now = view.leaf.whole().map(|leaf| leaf.thumbprint.clone());
    match (&plan.leaf, now) {
        (LeafStep::Issue(why), replaces) => {
            vec![Step::IssueCertificate { why: why.clone(), intermediate: plan.intermediate.clone(), replaces }]
        }
        (LeafStep::WriteRoots, Some(leaf)) => vec![Step::WriteRoots { beside: leaf }],
        _ => Vec::new(),
    }
}

/// Objects that show the certificates, where something of ours is missing or different; what people may set stays theirs.
fn showing(read: &CertificatesRead, view: &ClusterView, cluster: &Identity, now: Timestamp) -> Vec<Step> {
    let bundle = bundle_manifest(cluster, view);
    let bundle_uid = read.bundle.as_ref().and_then(|bundle| bundle.metadata.uid.as_deref());
    let binding = view.leaf.whole().zip(bundle_uid).map(|(leaf, uid)| {
        let before = read.binding.as_ref().map(|binding| &binding.spec);
        let place = (names::bundle(&cluster.name), common::mtls_secret(&cluster.name));
        let spec = binding_spec(&cluster.name, leaf, (&place.0, &place.1), &view.pods, before, now);
        binding_manifest(cluster, uid, &spec)
    });
    let bundle = show(BUNDLE, bundle, read.bundle.as_ref());
    let binding = binding.and_then(|manifest| show(BINDING, manifest, read.binding.as_ref()));
    bundle.into_iter().chain(binding).collect()
}

/// What exists is written over only if it is still the object that was read.
fn show(kind: &'static str, mut manifest: Value, live: Option<&impl Serialize>) -> Option<Step> {
    let live = live.map(|live| json!(live));
    let same = live.as_ref().is_some_and(|live| differences(&manifest, live).is_empty());
    let uid = live.as_ref().and_then(|live| live.pointer("/metadata/uid")).cloned();
    if let (Some(uid), Some(metadata)) = (uid, manifest.pointer_mut("/metadata").and_then(Value::as_object_mut)) {
        metadata.insert("uid".to_owned(), uid);
    }
    (!same).then_some(Step::ShowCertificate { kind, manifest })
}

/// All but the rotation policy, which people may set.
fn bundle_manifest(cluster: &Identity, view: &ClusterView) -> Value {
    let name = &cluster.name;
    let lifetime = view.intermediate.whole().map(|found| found.lifetime);
    let spec = ValkeyCertificateBundleSpec {
        ca_ref: names::ROOT.to_owned(),
        purpose: Purpose::Mtls,
        cert_secret_ref: names::intermediate_secret(name),
        key_secret_ref: names::intermediate_key_secret(&cluster.namespace, name),
        issued_at: lifetime.map(|lifetime| Time(lifetime.issued_at)),
        expires_at: lifetime.map(|lifetime| Time(lifetime.expires_at)),
        rotation_policy: Default::default(),
    };
    let mut spec = json!(spec);
    if let Some(map) = spec.as_object_mut() {
        map.remove("rotationPolicy");
    }
    manifest(BUNDLE, &names::bundle(name), cluster, (KIND, name, &cluster.uid), spec)
}

fn binding_manifest(cluster: &Identity, bundle_uid: &str, spec: &ValkeyCertificateBindingSpec) -> Value {
    let (name, bundle) = (names::binding(&cluster.name), names::bundle(&cluster.name));
    manifest(BINDING, &name, cluster, (BUNDLE, &bundle, bundle_uid), json!(spec))
}

fn manifest(kind: &str, name: &str, cluster: &Identity, owner: (&str, &str, &str), spec: Value) -> Value {
    let (owner_kind, owner_name, owner_uid) = owner;
    json!({
        "apiVersion": API_VERSION, "kind": kind, "spec": spec,
        "metadata": {
            "name": name, "namespace": cluster.namespace, "labels": common::labels(&cluster.name),
            "annotations": { annotation::CR: cluster.name },
            "ownerReferences": [{ "apiVersion": API_VERSION, "kind": owner_kind, "name": owner_name, "uid": owner_uid,
                "controller": true, "blockOwnerDeletion": true }],
        },
    })
}

/// A changed pod makes the kubelet refresh its volumes at once. Pods that were made after the Secret was written mount the newest
/// anyway; one that is not told has it within a minute or two.
fn telling(read: &CertificatesRead, pods: &[PodFacts]) -> Vec<Step> {
    let Some(leaf) = read.view.leaf.whole() else { return Vec::new() };
    let revision = revision(leaf);
    let has = |pod: &PodFacts| pod.annotations.get(annotation::IDENTITY_REVISION) == Some(&revision);
    let older = |pod: &PodFacts| pod.created < read.written.as_second();
    let behind = pods.iter().filter(|pod| pod.running && !pod.terminating && older(pod) && !has(pod));
    let metadata = json!({ "annotations": { annotation::IDENTITY_REVISION: revision } });
    let tell =
        |pod: &PodFacts| Step::PatchPod { pod: pod.name.clone(), uid: pod.uid.clone(), metadata: metadata.clone() };
    behind.map(tell).collect()
}

/// What the Secret holds, in a few letters.
fn revision(leaf: &Leaf) -> String {
    let roots = leaf.roots.iter().map(|root| root.as_str()).collect::<Vec<_>>().join(" ");
    digest::of_text(&format!("{} {roots}", leaf.thumbprint))
}

/// What was made a moment ago is told with its reason.
fn with_reason_of_last(read: &CertificatesRead, plan: &ClusterPlan) -> ClusterPlan {
    let present = read.view.leaf.whole().map(|leaf| &leaf.thumbprint);
    match read.made.as_ref().filter(|made| Some(&made.leaf) == present && plan.leaf == LeafStep::Keep) {
        Some(made) => ClusterPlan {
            intermediate: made.intermediate.clone(),
            leaf: LeafStep::Issue(made.why.clone()),
            next: plan.next,
        },
        None => plan.clone(),
    }
}

fn statuses(read: &CertificatesRead, view: &ClusterView, plan: &ClusterPlan, now: Timestamp) -> Vec<OtherStatus> {
    let bundle = read.bundle.as_ref().and_then(|bundle| {
        let before = bundle.status.clone().unwrap_or_default();
        let next = bundle_status(view, plan, &read.policy, &read.id, (&before, bundle.metadata.generation), now);
        (bundle.status.as_ref() != Some(&next)).then(|| other_status(BUNDLE, BUNDLE_STATUS, &bundle.metadata, &next))
    });
    let binding = read.binding.as_ref().and_then(|binding| {
        let before = binding.status.clone().unwrap_or_default();
        let next = binding_status(view, plan, &read.policy, (&before, binding.metadata.generation), now);
        (binding.status.as_ref() != Some(&next))
            .then(|| other_status(BINDING, BINDING_STATUS, &binding.metadata, &next))
    });
    bundle.into_iter().chain(binding).collect()
}

fn other_status(
    kind: &'static str,
    written_as: &'static str,
    metadata: &ObjectMeta,
    status: &impl Serialize,
) -> OtherStatus {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    OtherStatus { kind, written_as, name: text(&metadata.name), uid: text(&metadata.uid), status: json!(status) }
}
