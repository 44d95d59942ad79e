//! Two trust domains with an agent for each workload, as SPIRE would run them, federated with each other.

use anyhow::Result;
use std::{collections::HashMap, future::Future, time::Duration};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use workload_api::{
    Source, Times,
    contract::X509svid,
    testing::{Agent, Domain},
};

pub const HOUR: Duration = Duration::from_secs(3600);
/// It costs only a test that fails.
pub const DEADLINE: Duration = Duration::from_secs(120);
pub const NAMESPACE: &str = "team-a";
pub const CLUSTER: &str = "orders";
pub const OPERATOR: &str = "spiffe://valkey-system/valkey-operator";
pub const SIDECAR: &str = "spiffe://team-a/valkeycluster/orders/sidecar";

pub struct World {
    pub system: Domain,
    pub team: Domain,
    pub operators_agent: Agent,
    pub sidecars_agent: Agent,
    _folder: TempDir,
}

impl World {
    /// Every workload has what it needs.
    pub fn new() -> Result<Self> {
        let world = Self::empty()?;
        world.renew()?;
        Ok(world)
    }

    pub fn empty() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        Ok(Self {
            system: Domain::new("valkey-system")?,
            team: Domain::new(NAMESPACE)?,
            operators_agent: Agent::listen(&folder.path().join("operator.sock"))?,
            sidecars_agent: Agent::listen(&folder.path().join("sidecar.sock"))?,
            _folder: folder,
        })
    }

    /// Fresh identities for both.
    pub fn renew(&self) -> Result<()> {
        self.operators_agent.give(vec![self.system.svid(OPERATOR, HOUR)?], federated(&self.team));
        self.give_sidecar(vec![self.team.svid(SIDECAR, HOUR)?]);
        Ok(())
    }

    pub fn give_sidecar(&self, svids: Vec<X509svid>) {
        self.sidecars_agent.give(svids, federated(&self.system));
    }

    pub fn operators_source(&self) -> Result<Source> {
        Ok(Source::follow(self.operators_agent.endpoint(), OPERATOR.parse()?, times()))
    }

    pub fn sidecars_source(&self) -> Result<Source> {
        Ok(Source::follow(self.sidecars_agent.endpoint(), SIDECAR.parse()?, times()))
    }
}

pub fn federated(domain: &Domain) -> HashMap<String, Vec<u8>> {
    HashMap::from([(domain.id(), domain.bundle())])
}

pub fn times() -> Times {
    Times { denial: Duration::from_millis(300), ..Times::default() }
}

/// Waits for a condition.
pub async fn until(what: &str, condition: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        anyhow::ensure!(Instant::now() < end, "waited {DEADLINE:?} in vain for {what}");
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(DEADLINE, future).await.map_err(|_| anyhow::anyhow!("waited {DEADLINE:?} in vain for {what}"))
}
