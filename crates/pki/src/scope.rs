//! For whom an intermediate may sign. Pure. One root serves all namespaces, so the intermediate itself says where its power ends:
//! its SPIFFE id is the namespace's, and its subject names the operator or one cluster. The verifier holds leaves to it.

use crate::label::{InvalidLabel, Label};
use crate::spiffe_id::SpiffeId;
use crate::trust_domain::TrustDomain;
use std::fmt;

const OPERATOR: &str = "valkey-operator";
const CLUSTER: &str = "valkeycluster";
const SIDECAR: &str = "sidecar";

/// The operator, or one cluster, in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    namespace: Label,
    holder: Holder,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Holder {
    Operator,
    Cluster(Label),
}

/// The subject of an intermediate: these three attributes, each once, in this order, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub organization: String,
    pub unit: String,
    pub common_name: String,
}

impl Scope {
    /// The operator in its namespace.
    pub fn operator(namespace: &str) -> Result<Self, InvalidLabel> {
        Ok(Self { namespace: Label::parse("the namespace", namespace)?, holder: Holder::Operator })
    }

    /// One ValkeyCluster.
    pub fn cluster(namespace: &str, name: &str) -> Result<Self, InvalidLabel> {
        let holder = Holder::Cluster(Label::parse("the cluster name", name)?);
        Ok(Self { namespace: Label::parse("the namespace", namespace)?, holder })
    }

    pub fn trust_domain(&self) -> TrustDomain {
        TrustDomain::from(&self.namespace)
    }

    /// The identity its leaves have.
    pub fn identity(&self) -> SpiffeId {
        match &self.holder {
            Holder::Operator => SpiffeId::of_segments(&self.trust_domain(), &[OPERATOR]),
            Holder::Cluster(name) => SpiffeId::of_segments(&self.trust_domain(), &[CLUSTER, name.as_str(), SIDECAR]),
        }
    }

    #[cfg(feature = "issue")]
    pub(crate) fn subject(&self) -> Subject {
        let (unit, common_name) = match &self.holder {
            Holder::Operator => (OPERATOR, OPERATOR),
            Holder::Cluster(name) => (CLUSTER, name.as_str()),
        };
        Subject {
            organization: self.namespace.as_str().to_owned(),
            unit: unit.to_owned(),
            common_name: common_name.to_owned(),
        }
    }

    /// The scope a subject states, if it states one.
    pub(crate) fn of_subject(subject: &Subject) -> Option<Self> {
        match (subject.unit.as_str(), subject.common_name.as_str()) {
            (OPERATOR, OPERATOR) => Self::operator(&subject.organization).ok(),
            (CLUSTER, name) => Self::cluster(&subject.organization, name).ok(),
            _ => None,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_str();
        match &self.holder {
            Holder::Operator => write!(f, "the operator in namespace {namespace}"),
            Holder::Cluster(name) => write!(f, "the cluster {} in namespace {namespace}", name.as_str()),
        }
    }
}

#[cfg(all(test, feature = "issue"))]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_back_from_its_subject() {
        for scope in [Scope::operator("valkey-system").unwrap(), Scope::cluster("team-a", "poc").unwrap()] {
            assert_eq!(Scope::of_subject(&scope.subject()), Some(scope));
        }
    }

    #[test]
    fn a_cluster_that_is_called_like_the_operator_is_not_the_operator() {
        let cluster = Scope::cluster("valkey-system", OPERATOR).unwrap();
        let operator = Scope::operator("valkey-system").unwrap();
        assert_ne!(cluster.identity(), operator.identity());
        assert_eq!(Scope::of_subject(&cluster.subject()), Some(cluster));
    }

    #[test]
    fn a_subject_of_somebody_else_states_no_scope() {
        let subject = |organization: &str, unit: &str, common_name: &str| Subject {
            organization: organization.to_owned(),
            unit: unit.to_owned(),
            common_name: common_name.to_owned(),
        };
        for subject in [subject("a", "x", "poc"), subject("a", OPERATOR, "poc"), subject("a/b", CLUSTER, "poc")] {
            assert_eq!(Scope::of_subject(&subject), None);
        }
    }
}
