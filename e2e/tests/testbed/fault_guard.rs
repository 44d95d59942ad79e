//! A broken node is mended whatever becomes of the test that broke it.

use anyhow::{Result, bail};
use e2e::{Scenario, Test, collection};
use std::fs;

#[test]
fn a_failing_test_mends_the_node_it_broke() -> Result<()> {
    let name = "a-test-that-fails-while-a-node-is-cut";
    let outcome = Scenario::named(name).breaks_nodes().run(async |test| {
        let _fault = test.cut_node("node-1").await?;
        assert_eq!(state_of(test, "node-1").await?, "cut");
        bail!("left in the middle")
    });
    // On an external cluster it was skipped, which is no failure.
    if outcome.is_ok() {
        return Ok(());
    }
    fs::remove_dir_all(collection::directory_of(name)?)?;
    is_running("a-node-broken-by-a-failing-test-runs")
}

#[test]
fn a_fault_that_a_killed_test_left_is_mended_by_the_next() -> Result<()> {
    Scenario::named("a-fault-that-a-killed-test-left-is-mended").breaks_nodes().run(async |test| {
        // Nothing runs at the end of a killed process, no destructor either.
        std::mem::forget(test.cut_node("node-1").await?);
        Ok(())
    })?;
    is_running("a-node-broken-by-a-killed-test-runs")
}

fn is_running(name: &str) -> Result<()> {
    Scenario::named(name).needs_testbed("it asks the testbed about its nodes").run(async |test| {
        assert_eq!(state_of(test, "node-1").await?, "running");
        Ok(())
    })
}

async fn state_of(test: &Test, node: &str) -> Result<String> {
    let text = test.testbed()?.driver(&["status", "--json"]).await?;
    let status: serde_json::Value = serde_json::from_str(&text)?;
    let nodes = status["status"]["nodes"].as_array().expect("status lists the nodes");
    let found = nodes.iter().find(|entry| entry[0] == node).expect("status lists the node");
    Ok(found[1].as_str().unwrap_or_default().to_owned())
}
