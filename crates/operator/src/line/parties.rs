//! Whom a change of certificates waits for: what the roster knows of the sidecars, in the words of `identity`.

use super::roster::Roster;
use crate::identity::{Parties, SidecarParty};

impl Parties for Roster {
    fn sidecars(&self, cluster_uid: &str) -> Vec<SidecarParty> {
        let known = self.of_cluster(cluster_uid);
        let party = |facts: &super::SidecarFacts| SidecarParty {
            pod_uid: facts.pod.pod_uid.clone(),
            // A sidecar that is older than this field says nothing.
            trusted_roots: facts
                .beat
                .revisions
                .as_ref()
                .map(|said| said.trusted_roots.clone())
                .filter(|roots| !roots.is_empty()),
            presents: facts.connected.then(|| facts.certificate.thumbprint.to_string()),
        };
        known.iter().map(|facts| party(facts)).collect()
    }

    fn orchestrating(&self, cluster_uid: &str) -> bool {
        self.of_cluster(cluster_uid).iter().any(|facts| facts.streaming)
    }
}
