//! The identities this project gives out. Pure; `docs/identities.md` shows them to people.

use crate::label::{InvalidLabel, Label};
use crate::scope::Scope;
use crate::spiffe_id::SpiffeId;
use crate::trust_domain::TrustDomain;

/// Begins the path of an identity whose trust domain is not its namespace.
const NAMESPACE: &str = "ns";

/// The operator, in its own namespace: `spiffe://<namespace>/valkey-operator`.
pub fn operator(namespace: &str) -> Result<SpiffeId, InvalidLabel> {
    Scope::operator(namespace).map(|scope| scope.identity())
}

/// The sidecars of a ValkeyCluster: `spiffe://<namespace>/valkeycluster/<name>/sidecar`.
pub fn sidecar(namespace: &str, cluster: &str) -> Result<SpiffeId, InvalidLabel> {
    Scope::cluster(namespace, cluster).map(|scope| scope.identity())
}

/// How identities are spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The trust domain is the namespace: the built-in authority's way, and that of a SPIFFE server for each namespace.
    Namespaces,
    /// One trust domain for all, because one SPIFFE server has only one: `spiffe://<domain>/ns/<namespace>/…`, and behind it as above.
    Within(TrustDomain),
}

impl Naming {
    /// The way in which the operator's own id is spelled; its sidecars' ids are spelled in the same.
    pub fn of_operator(id: &SpiffeId) -> Self {
        let domain = id.trust_domain();
        let mut segments = id.path().split('/').skip(1);
        let within = Self::Within(domain.clone());
        let namespace = segments.nth(1).unwrap_or_default();
        if within.operator(namespace).as_ref() == Ok(id) { within } else { Self::Namespaces }
    }

    pub fn operator(&self, namespace: &str) -> Result<SpiffeId, InvalidLabel> {
        operator(namespace).and_then(|id| self.spell(namespace, id))
    }

    pub fn sidecar(&self, namespace: &str, cluster: &str) -> Result<SpiffeId, InvalidLabel> {
        sidecar(namespace, cluster).and_then(|id| self.spell(namespace, id))
    }

    fn spell(&self, namespace: &str, id: SpiffeId) -> Result<SpiffeId, InvalidLabel> {
        let Self::Within(domain) = self else { return Ok(id) };
        let namespace = Label::parse("the namespace", namespace)?;
        let segments: Vec<_> =
            [NAMESPACE, namespace.as_str()].into_iter().chain(id.path().split('/').skip(1)).collect();
        Ok(SpiffeId::of_segments(domain, &segments))
    }
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
    #[test]
    fn one_trust_domain_for_all_has_the_namespace_in_the_path() {
        let naming = Naming::Within("example.org".parse().unwrap());
        let (operator, sidecar) = (naming.operator("valkey-system").unwrap(), naming.sidecar("team-a", "poc").unwrap());
        assert_eq!(operator.to_string(), "spiffe://example.org/ns/valkey-system/valkey-operator");
        assert_eq!(sidecar.to_string(), "spiffe://example.org/ns/team-a/valkeycluster/poc/sidecar");
        assert!(naming.sidecar("team-a/x", "poc").is_err() && naming.sidecar("team-a", "../poc").is_err());
        assert_eq!(Naming::Namespaces.sidecar("team-a", "poc"), super::sidecar("team-a", "poc"));
    }

    #[test]
    fn the_operators_own_id_tells_how_ids_are_spelled() {
        let naming = |text: &str| Naming::of_operator(&text.parse().unwrap());
        let within = Naming::Within("example.org".parse().unwrap());
        assert_eq!(naming("spiffe://example.org/ns/valkey-system/valkey-operator"), within);
        for text in
            ["spiffe://ns/valkey-operator", "spiffe://a/ns/b/c", "spiffe://a/ns/b/valkey-operator/c", "spiffe://a"]
        {
            assert_eq!(naming(text), Naming::Namespaces, "{text}");
        }
    }
}
