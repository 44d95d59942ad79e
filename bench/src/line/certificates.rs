//! One installation for the measurement: a root, the operator's leaf, and a leaf for each cluster.

use anyhow::Result;
use jiff::Timestamp;
use link::Credentials;
use pki::{Authority, Scope, SystemRandomness};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const SIX_HOURS: Duration = Duration::from_secs(6 * 3600);
pub const OPERATOR_NAMESPACE: &str = "valkey-system";
pub const NAMESPACE: &str = "bench";

/// A leaf with its key and what it trusts, as a Secret would hold them.
#[derive(Clone, Serialize, Deserialize)]
pub struct Files {
    pub chain: String,
    pub key: String,
    pub bundle: String,
}

impl Files {
    pub fn credentials(&self) -> Result<Credentials> {
        Ok(Credentials::from_pem(self.chain.as_bytes(), self.key.as_bytes(), self.bundle.as_bytes())?)
    }
}

pub struct Installation {
    root: Authority,
}

impl Installation {
    pub fn new() -> Result<Self> {
        let root = Authority::root(&OPERATOR_NAMESPACE.parse()?, 10 * YEAR, Timestamp::now(), &SystemRandomness)?;
        Ok(Self { root })
    }

    pub fn operator(&self) -> Result<Files> {
        self.files(&Scope::operator(OPERATOR_NAMESPACE)?)
    }

    pub fn cluster(&self, name: &str) -> Result<Files> {
        self.files(&Scope::cluster(NAMESPACE, name)?)
    }

    fn files(&self, scope: &Scope) -> Result<Files> {
        let intermediate = self.root.intermediate(scope, YEAR, Timestamp::now(), &SystemRandomness)?;
        let leaf = intermediate.leaf(&scope.identity(), SIX_HOURS, Timestamp::now(), &SystemRandomness)?;
        let bundle = self.root.certificate_pem()?;
        Ok(Files { chain: leaf.chain_pem, key: leaf.key_pem.to_string(), bundle })
    }
}
