//! One thing to do: a write to the API server or a command to a node. Pure data; the operator executes it as it stands.

use crate::child::ChildKey;
use crate::nodes::PodCommand;
use jiff::Timestamp;
use pki::Thumbprint;
use serde_json::Value;
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Tell a node something, through its sidecar. Never waits for the API server.
    Command(PodCommand),
    Apply(Apply),
    /// Delete an object of ours that is no longer wanted.
    Delete {
        key: ChildKey,
        uid: String,
    },
    /// Delete the StatefulSet but not its pods: fields of it that cannot change need a new one, which adopts the pods.
    Release {
        key: ChildKey,
        uid: String,
    },
    /// Make the StatefulSet controller look again now: after a pod could not be made it waits for minutes, whatever has changed since.
    Nudge {
        key: ChildKey,
        uid: String,
        at: Timestamp,
    },
    GrowClaim {
        claim: String,
        uid: String,
        storage: String,
    },
    /// Make the certificate of the sidecars, and first the intermediate above it if that is to be replaced.
    IssueCertificate {
        why: certificates::Why,
        intermediate: Option<certificates::Why>,
        /// The one that was seen in its place.
        replaces: Option<Thumbprint>,
    },
    /// Write the roots that are trusted now beside the certificate of the sidecars.
    WriteRoots {
        beside: Thumbprint,
    },
    /// Server-side apply of an object that shows certificates.
    ShowCertificate {
        kind: &'static str,
        manifest: Value,
    },
    /// A merge patch of a volume claim's metadata.
    PatchClaim {
        claim: String,
        uid: String,
        metadata: Value,
    },
    /// A merge patch of a living pod's metadata.
    PatchPod {
        pod: String,
        uid: String,
        metadata: Value,
    },
}

/// Server-side apply of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    pub key: ChildKey,
    pub manifest: Value,
    pub why: Why,
    /// UID of the object that was judged: another one that took its name since is left alone. None if there was none.
    pub uid: Option<String>,
    /// JSON Patch operations that come first: what somebody put into lists and maps of ours, which apply would leave.
    pub evict: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Missing,
    /// The manifest is another than the one applied last.
    Changed,
    /// It was orphaned and is ours again.
    Adopted,
    /// Somebody changed it; the first place.
    Drifted(String),
}

impl Step {
    pub fn command(&self) -> Option<&PodCommand> {
        match self {
            Step::Command(command) => Some(command),
            _ => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Command(command) => command.fmt(f),
            Step::Apply(apply) => apply.fmt(f),
            Step::Delete { key, .. } => write!(f, "delete {key}"),
            Step::Release { key, .. } => write!(f, "replace {key} and keep its pods"),
            Step::Nudge { key, .. } => write!(f, "make the controller of {key} look again"),
            Step::GrowClaim { claim, storage, .. } => write!(f, "grow PersistentVolumeClaim {claim} to {storage}"),
            Step::IssueCertificate { why, .. } => write!(f, "make the certificate of the sidecars: {why}"),
            Step::WriteRoots { .. } => f.write_str("write the trusted roots beside the certificate of the sidecars"),
            Step::ShowCertificate { kind, .. } => write!(f, "apply the {kind}"),
            Step::PatchClaim { claim, .. } => write!(f, "mark PersistentVolumeClaim {claim} as this cluster's"),
            Step::PatchPod { pod, .. } => write!(f, "update labels and annotations of pod {pod}"),
        }
    }
}

impl fmt::Display for Apply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Missing => write!(f, "create {}", self.key),
            Why::Changed => write!(f, "update {}", self.key),
            Why::Adopted => write!(f, "take back {}", self.key),
            Why::Drifted(path) => write!(f, "repair {} at {path}", self.key),
        }
    }
}
