//! What the voters of Valkey do that the operator relies on.

use crate::{
    cluster::{Cluster, SHARDS},
    pod::eventually,
};
use std::time::Instant;
use valkey::testing::BOTH_VERSIONS;

/// Older servers denied every vote about a primary for two node timeouts after one; had these, attempts would have to be that far apart.
#[tokio::test]
async fn a_voter_votes_again_about_the_same_primary_at_once() {
    for version in BOTH_VERSIONS {
        let mut cluster = Cluster::form(version, &[("save", "")], &[]).await;
        cluster.pods[2].server().freeze().unwrap();
        cluster.kill(0);
        let mut candidate = cluster.pods[SHARDS].connect().await;
        candidate.call(&["CLUSTER", "FAILOVER", "FORCE"]).await.unwrap();
        let voter = &cluster.pods[1];
        let votes = || voter.server.as_ref().unwrap().log().matches("Failover auth granted").count();
        eventually("the one that answers has voted", || async { votes() == 1 }).await;
        cluster.pods[2].server().thaw().unwrap();
        let voted = Instant::now();
        let again = || async {
            let _ = cluster.pods[SHARDS].connect().await.call(&["CLUSTER", "FAILOVER", "FORCE"]).await;
            cluster.role(SHARDS).await == Some(true)
        };
        eventually("the replica takes over", again).await;
        let voter = cluster.pods[1].server.as_ref().unwrap().log();
        assert!(!voter.contains("can't vote"), "{version:?}, after {:?}: {voter}", voted.elapsed());
        assert!(voter.matches("Failover auth granted").count() >= 2, "{version:?}: {voter}");
    }
}
