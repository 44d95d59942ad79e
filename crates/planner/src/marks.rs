//! Annotations by which the operator recognises its own work. Pure.

/// On every object the operator applies: digest of the manifest. A field that is no longer in the manifest shows only here.
pub const APPLIED_REVISION: &str = "valkey.io/applied-revision";
/// On pods and their template: which of their labels and annotations come from the spec.
pub const POD_METADATA: &str = "valkey.io/pod-metadata";
