//! The identities this project gives out. Pure; `docs/identities.md` shows them to people.

use crate::label::InvalidLabel;
use crate::scope::Scope;
use crate::spiffe_id::SpiffeId;

/// The operator, in its own namespace: `spiffe://<namespace>/valkey-operator`.
pub fn operator(namespace: &str) -> Result<SpiffeId, InvalidLabel> {
    Scope::operator(namespace).map(|scope| scope.identity())
}

/// The sidecars of a ValkeyCluster: `spiffe://<namespace>/valkeycluster/<name>/sidecar`.
pub fn sidecar(namespace: &str, cluster: &str) -> Result<SpiffeId, InvalidLabel> {
    Scope::cluster(namespace, cluster).map(|scope| scope.identity())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_spelled_as_documented() {
        assert_eq!(operator("valkey-system").unwrap().to_string(), "spiffe://valkey-system/valkey-operator");
        assert_eq!(sidecar("team-a", "poc").unwrap().to_string(), "spiffe://team-a/valkeycluster/poc/sidecar");
    }

    #[test]
    fn a_name_that_could_forge_a_path_is_refused() {
        assert!(sidecar("team-a", "poc/sidecar").is_err());
        assert!(sidecar("team-a/x", "poc").is_err());
    }
}
