//! The rules behind identities: from what was found in Secrets and heard from operators and sidecars to the next steps and the words
//! about them. Pure: no IO, no clock, no key. The operator's `identity` module observes, calls this, and does what it says.

mod authority_status;
mod cluster;
mod cluster_status;
mod found;
mod intermediate;
mod leaf;
mod root;
mod unused;
mod words;

pub use authority_status::{AuthorityReport, authority_status};
pub use cluster::{ClusterPlan, ClusterView, PodView, Policy, cluster_plan};
pub use cluster_status::{binding_spec, binding_status, bundle_status};
pub use found::Found;
pub use intermediate::{Intermediate, intermediate_step};
pub use leaf::{Leaf, LeafStep, Why};
pub use root::{RootPlan, RootStep, RootView, Signing, Source, Stored, Wanted, root_plan};
pub use unused::unused_status;
