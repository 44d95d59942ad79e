//! A primary's pod is gone from one moment to the next, address and all: nobody goes on looking for it there.

use crate::formed::{formed, loaded_twice, promoted, scenario, stopped_whole};
use anyhow::{Context, Result, ensure};
use e2e::{
    node, sound,
    view::{self, topology},
};
use kube::ResourceExt;
use serde_json::json;

#[test]
fn nobody_keeps_the_address_of_a_dead_primary() -> Result<()> {
    scenario("nobody-keeps-the-address-of-a-dead-primary").run(async |test| {
        let cluster = formed(test, "poc", "8.1", json!({})).await?;
        let (victim, heir) = topology(&cluster).await?.shard(0)?;
        let load = loaded_twice(&cluster).await?;
        let forced = ["delete", "pod", &victim.pod, "--grace-period=0", "--force"];
        test.kill_pod(&victim.pod, Some("valkey")).await?;
        test.kubectl(&forced).await?.success()?;
        promoted(&cluster, &heir.pod).await?;
        sound(&cluster, 3, 1).await?;
        stopped_whole(load).await?;
        let pods = cluster.pods().await?;
        let addresses: Vec<_> = pods.iter().map(view::ip).collect();
        for pod in &pods {
            let name = pod.name_any();
            let info = node::ask(test, &name, &["info", "replication"]).await?;
            let Some(host) = info.lines().find_map(|line| line.trim().strip_prefix("master_host:")) else { continue };
            ensure!(addresses.contains(&host), "{name} follows {host}, which is none of {addresses:?}");
            let link = info.lines().find_map(|line| line.trim().strip_prefix("master_link_status:"));
            ensure!(link.context("a replica has a link")? == "up", "{name} waits for {host}");
        }
        Ok(())
    })
}
