//! Whom a change of certificates waits for, as the line knows it. Implemented by the line's roster.

/// One sidecar. `None` is what it did not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidecarParty {
    pub pod_uid: String,
    /// Thumbprints of the roots it trusts.
    pub trusted_roots: Option<Vec<String>>,
    /// Thumbprint of the leaf it shows.
    pub presents: Option<String>,
}

pub trait Parties: Send + Sync {
    /// The sidecars of a cluster that ever spoke to this operator.
    fn sidecars(&self, cluster_uid: &str) -> Vec<SidecarParty>;
    /// Whether an orchestration of this cluster is open: its certificates do not change meanwhile.
    fn orchestrating(&self, cluster_uid: &str) -> bool;
}

/// Nobody speaks: every sidecar counts as one that could not be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoParties;

impl Parties for NoParties {
    fn sidecars(&self, _: &str) -> Vec<SidecarParty> {
        Vec::new()
    }

    fn orchestrating(&self, _: &str) -> bool {
        false
    }
}
