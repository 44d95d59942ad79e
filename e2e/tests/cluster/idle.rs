//! A cluster at rest costs nothing: the operator writes nothing but its Lease.

use anyhow::Result;
use e2e::{Cluster, Scenario, operator};
use serde_json::json;
use std::time::Duration;

const REST: Duration = Duration::from_secs(20);

#[test]
fn an_idle_cluster_costs_no_write() -> Result<()> {
    let scenario = Scenario::named("an-idle-cluster-costs-no-write");
    scenario.needs_testbed("it reads the API server's audit log").run(async |test| {
        let fields = json!({"readService": {"enabled": true}, "exporter": {"enabled": true}, "config": {"hz": "20"}});
        let idle = Cluster::create(test, "idle", fields).await?;
        let before = idle.ready().await?;
        let (audit, user) = (test.audit()?, operator::user());
        let mark = audit.mark()?;
        let writes = || anyhow::Ok(audit.since(mark)?.by(&user).mutating());
        test.hold("the cluster rests", REST, async || Ok(())).await?;
        let ours = writes()?.in_namespace(&test.namespace);
        assert!(ours.entries.is_empty(), "{}", ours.summary());
        let leases = writes()?.in_namespace(&operator::namespace()).resource("leases").succeeded();
        assert!(!leases.entries.is_empty(), "the operator did not even renew its Lease: was it there at all?");
        assert_eq!(idle.get().await?.metadata.resource_version, before.metadata.resource_version);
        Ok(())
    })
}
