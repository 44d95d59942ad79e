//! What to do next about a ValkeyCluster and what to say about it, decided from what was seen. Pure: no IO, no clock.
//! The operator calls `validate` and `plan` after observing, `status` and `notices` before publishing.

mod child;
mod claim_facts;
mod convergence;
mod differences;
mod digest;
mod gifts;
mod identities;
mod json;
mod last_words;
mod manifest;
mod modules;
mod node_status;
pub mod nodes;
mod notices;
mod objects;
mod observation;
mod ownership;
mod parameters;
mod plan;
mod pod_facts;
mod pod_labels;
mod pod_status;
mod pods;
mod references;
mod remedies;
mod report;
mod returning;
pub mod safety;
mod shape;
mod sidecar_updates;
mod sidecars;
mod status;
mod step;
mod storage;
mod troubles;
mod vain;

pub use ::manifests::Shape;
pub use child::{ChildKey, ChildKind};
pub use claim_facts::ClaimFacts;
pub use differences::{Difference, DifferenceKind, differences};
pub use digest::of_text as digest;
pub use identities::{BINDING, BUNDLE, CertificateReport, Certificates, CertificatesRead, Made, OtherStatus};
pub use manifest::{Manifests, child_manifests, expected_keys};
pub use notices::{Notice, notices};

pub use observation::{CreationFailure, Identity, Observation, Observed, WriteFailure, WriteOutcome};
pub use parameters::UnknownParameter;
pub use plan::{Plan, plan, validate};
pub use pod_facts::{ContainerFacts, PodFacts};
pub use pods::{asked_for, missing};
pub use references::{Reference, ReferenceKey, References};
pub use report::{Asked, Report, Trouble};
pub use sidecars::{LineFacts, Sidecar, SidecarState};
pub use status::{status, whole_second};
pub use step::{Apply, Step, Why};
