//! Secrets of a cluster that somebody deletes or spoils are made again; the pods and their connections do not notice.

use crate::stored::{all_show, another_leaf, binding, connected, delete_secret, leaf, operator_secrets, spoil};
use anyhow::Result;
use api::certificates::names;
use api::names::mtls_secret;
use e2e::{Cluster, Scenario, cluster};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

#[test]
fn a_deleted_leaf_is_made_again_and_told() -> Result<()> {
    Scenario::named("a-deleted-leaf-is-made-again").run(async |test| {
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let (before, lives) = (leaf(&poc).await?, cluster::lives(&poc.pods().await?));
        delete_secret(&test.api::<Secret>(), &mtls_secret("poc")).await?;
        let after = another_leaf(&poc, &before).await?;
        assert_eq!(after.issuer, before.issuer, "the intermediate was not lost");
        all_show(&poc, &after, 3).await?;
        let conditions = binding(&poc).await?.status.unwrap().conditions;
        assert_eq!((conditions[0].status.as_str(), conditions[0].reason.as_str()), ("True", "Repaired"));
        connected(&poc, 3).await?;
        assert_eq!(cluster::lives(&poc.pods().await?), lives, "a new certificate restarted pods");
        Ok(())
    })
}

#[test]
fn a_leaf_with_a_spoilt_key_is_made_again() -> Result<()> {
    Scenario::named("a-leaf-with-a-spoilt-key-is-made-again").run(async |test| {
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let before = leaf(&poc).await?;
        spoil(test, &mtls_secret("poc"), "tls.key", "nonsense").await?;
        all_show(&poc, &another_leaf(&poc, &before).await?, 3).await?;
        connected(&poc, 3).await
    })
}

#[test]
fn a_lost_intermediate_is_made_again_with_a_leaf_below_it() -> Result<()> {
    Scenario::named("a-lost-intermediate-is-made-again").run(async |test| {
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let before = leaf(&poc).await?;
        delete_secret(&operator_secrets(test), &names::intermediate_key_secret(&test.namespace, "poc")).await?;
        let after = another_leaf(&poc, &before).await?;
        assert_ne!(after.issuer, before.issuer);
        assert_eq!(after.root, before.root);
        all_show(&poc, &after, 3).await?;
        connected(&poc, 3).await
    })
}
