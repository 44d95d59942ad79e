//! One thing to do: a write to the API server or a command to a node. Pure data; the operator executes it as it stands.

use crate::child::ChildKey;
use crate::nodes::PodCommand;
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
    GrowClaim {
        claim: String,
        uid: String,
        storage: String,
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
            Step::GrowClaim { claim, storage, .. } => write!(f, "grow PersistentVolumeClaim {claim} to {storage}"),
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
