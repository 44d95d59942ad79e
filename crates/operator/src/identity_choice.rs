//! Where certificates come from, out of the command line. Pure; `run` asks once.

use clap::ValueEnum;
use pki::{TrustDomain, identity::Naming};
use workload_api::Endpoint;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IdentitySource {
    /// The operator's own certificate authority
    BuiltIn,
    /// A SPIFFE Workload API, for instance of SPIRE
    WorkloadApi,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityChoice {
    BuiltIn,
    WorkloadApi { endpoint: Endpoint, naming: Naming },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChoice {
    #[error(
        "--identity-source workload-api needs --workload-api-socket or SPIFFE_ENDPOINT_SOCKET, for instance unix:///spiffe-workload-api/spire-agent.sock"
    )]
    NoSocket,
    #[error(
        "--workload-api-socket {0} cannot be mounted into pods: name a socket in a directory of its own, for instance unix:///spiffe-workload-api/spire-agent.sock"
    )]
    NotMountable(Endpoint),
    #[error(
        "--trust-domain is for --identity-source workload-api: the built-in authority's trust domains are the namespaces"
    )]
    TrustDomain,
}

impl IdentityChoice {
    pub fn new(
        source: IdentitySource,
        socket: Option<&Endpoint>,
        trust_domain: Option<&TrustDomain>,
    ) -> Result<Self, InvalidChoice> {
        if source == IdentitySource::BuiltIn {
            return if trust_domain.is_some() { Err(InvalidChoice::TrustDomain) } else { Ok(Self::BuiltIn) };
        }
        let endpoint = socket.ok_or(InvalidChoice::NoSocket)?.clone();
        if !is_mountable(&endpoint) {
            return Err(InvalidChoice::NotMountable(endpoint));
        }
        let naming = trust_domain.map_or(Naming::Namespaces, |domain| Naming::Within(domain.clone()));
        Ok(Self::WorkloadApi { endpoint, naming })
    }

    /// How identities are spelled.
    pub fn naming(&self) -> &Naming {
        match self {
            Self::BuiltIn => &Naming::Namespaces,
            Self::WorkloadApi { naming, .. } => naming,
        }
    }

    /// Where sidecars find the Workload API: at the same path as the operator.
    pub fn socket(&self) -> Option<String> {
        match self {
            Self::BuiltIn => None,
            Self::WorkloadApi { endpoint, .. } => Some(endpoint.to_string()),
        }
    }
}

/// Pods mount the directory the socket is in, which therefore is not the root.
fn is_mountable(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Unix(path) => path.parent().is_some_and(|directory| directory.parent().is_some()),
        Endpoint::Tcp(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(source: IdentitySource, socket: &str, domain: Option<&str>) -> Result<IdentityChoice, InvalidChoice> {
        let (socket, domain) = (socket.parse().ok(), domain.map(|name| name.parse().unwrap()));
        IdentityChoice::new(source, socket.as_ref(), domain.as_ref())
    }

    #[test]
    fn the_built_in_authority_needs_nothing_and_ignores_a_socket() {
        assert_eq!(choose(IdentitySource::BuiltIn, "", None), Ok(IdentityChoice::BuiltIn));
        let beside = choose(IdentitySource::BuiltIn, "unix:///run/spire/agent.sock", None).unwrap();
        assert_eq!((beside.socket(), beside.naming()), (None, &Naming::Namespaces));
        assert_eq!(choose(IdentitySource::BuiltIn, "", Some("example.org")), Err(InvalidChoice::TrustDomain));
    }

    #[test]
    fn a_workload_api_is_found_by_operator_and_sidecars_at_one_path() {
        let choice = choose(IdentitySource::WorkloadApi, "unix:/run/spire/agent.sock", Some("example.org")).unwrap();
        assert_eq!(choice.socket().as_deref(), Some("unix:///run/spire/agent.sock"));
        let operator = choice.naming().operator("system").unwrap();
        assert_eq!(operator.to_string(), "spiffe://example.org/ns/system/valkey-operator");
        let choice = choose(IdentitySource::WorkloadApi, "unix:///run/spire/agent.sock", None).unwrap();
        assert_eq!(choice.naming(), &Naming::Namespaces);
    }

    #[test]
    fn a_workload_api_that_no_pod_can_reach_is_refused() {
        assert_eq!(choose(IdentitySource::WorkloadApi, "", None), Err(InvalidChoice::NoSocket));
        for socket in ["unix:///agent.sock", "tcp://127.0.0.1:8000"] {
            let refused = choose(IdentitySource::WorkloadApi, socket, None).unwrap_err();
            assert!(matches!(refused, InvalidChoice::NotMountable(_)), "{refused}");
        }
    }
}
