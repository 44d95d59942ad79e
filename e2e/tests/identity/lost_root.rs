//! The root's Secrets are taken away: written back while anybody still knows the root, and replaced step by step when nobody does.

use crate::stored::{all_show, another_leaf, another_root, connected, delete_secret, leaf, operator_secrets, root};
use anyhow::Result;
use api::certificates::names;
use e2e::{Cluster, PATIENCE, Scenario, Verdict, cluster, operator::StoppedOperator};
use serde_json::json;

#[test]
fn lost_secrets_of_the_root_are_written_back() -> Result<()> {
    let scenario = Scenario::named("lost-secrets-of-the-root").alone("it takes away the root that all tests need");
    scenario.run(async |test| {
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let (before, own) = (root(test).await?, leaf(&poc).await?);
        let api = operator_secrets(test);
        for name in [names::ROOT_SECRET, names::SIGNING_SECRET, names::OPERATOR_SECRET] {
            delete_secret(&api, name).await?;
            test.wait_for(&format!("{name} to be back"), PATIENCE, async || {
                Ok(Verdict::when(api.get_opt(name).await?.is_some(), || "it is not there".to_owned()))
            })
            .await?;
        }
        assert_eq!(root(test).await?, before, "the root is the same");
        assert_eq!(leaf(&poc).await?.thumbprint, own.thumbprint, "so the cluster has nothing to change");
        connected(&poc, 3).await
    })
}

#[test]
fn a_root_that_nobody_knows_any_more_is_replaced_without_a_restart() -> Result<()> {
    let scenario = Scenario::named("a-root-nobody-knows").alone("it takes away the root that all tests need");
    scenario.run(async |test| {
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let (before, own, lives) = (root(test).await?, leaf(&poc).await?, cluster::lives(&poc.pods().await?));
        let stopped = StoppedOperator::stop(test).await?;
        let api = operator_secrets(test);
        for name in [names::ROOT_SECRET, names::SIGNING_SECRET] {
            delete_secret(&api, name).await?;
        }
        stopped.start().await?;
        let after = another_root(test, &before).await?;
        let new = another_leaf(&poc, &own).await?;
        assert_eq!(new.root.as_str(), after);
        all_show(&poc, &new, 3).await?;
        connected(&poc, 3).await?;
        assert_eq!(cluster::lives(&poc.pods().await?), lives, "a new root restarted pods");
        Ok(())
    })
}
