//! A user resets an empty primary: its slots must be served again by whoever followed it, and its pod follows.

use crate::formed::{formed, loaded, scenario, stopped_whole};
use anyhow::Result;
use e2e::{sound, view::topology};
use serde_json::json;

#[test]
fn slots_of_a_primary_reset_by_hand_are_served_again() -> Result<()> {
    scenario("slots-of-a-primary-reset-by-hand-are-served").run(async |test| {
        let cluster = formed(test, "poc", "9.1", json!({})).await?;
        let (primary, _) = topology(&cluster).await?.shard(0)?;
        let reset = ["valkey-cli", "cluster", "reset", "hard"];
        test.note(format!("by hand in {}: {reset:?}", primary.pod));
        test.exec_in(&primary.pod, "valkey", &reset).await?.success()?;
        sound(&cluster, 3, 1).await?;
        stopped_whole(loaded(&cluster).await?).await?;
        Ok(())
    })
}
