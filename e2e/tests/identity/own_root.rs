//! A root of the user's own: taken over step by step when it is good, refused with the reason when it is not.

use crate::stored::{
    all_show, another_leaf, another_root, connected, delete_secret, leaf, operator_secrets, part, root, root_says,
    want_root,
};
use anyhow::{Context, Result};
use api::certificates::names;
use e2e::{Cluster, Scenario, Test, cluster, operator};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::PostParams;
use pki::{Authority, Bundle, Scope, SystemRandomness};
use serde_json::json;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MINE: &str = "e2e-own-root";

fn authority(validity: Duration, made: Timestamp) -> Result<Authority> {
    Ok(Authority::root(&"example.org".parse()?, validity, made, &SystemRandomness)?)
}

/// Removed when the test is over, and the root that is named is the operator's again.
struct Mine<'a>(&'a Test);

impl<'a> Mine<'a> {
    async fn put(test: &'a Test, certificate: &str, key: &str) -> Result<Self> {
        let mut secret = Secret::default();
        secret.metadata.name = Some(MINE.to_owned());
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        secret.data = Some([("tls.crt".to_owned(), bytes(certificate)), ("tls.key".to_owned(), bytes(key))].into());
        let api = operator_secrets(test);
        if api.get_opt(MINE).await?.is_some() {
            delete_secret(&api, MINE).await?;
        }
        api.create(&PostParams::default(), &secret).await.context("store the root")?;
        Ok(Self(test))
    }

    async fn take_away(self) -> Result<()> {
        want_root(self.0, names::ROOT_SECRET).await?;
        root_says(self.0, "Valid").await?;
        delete_secret(&operator_secrets(self.0), MINE).await
    }
}

#[test]
fn a_good_root_takes_over_and_the_operators_takes_over_again() -> Result<()> {
    let scenario = Scenario::named("a-good-root-takes-over").alone("it changes the root that all tests need");
    scenario.run(async |test| {
        test.also_collect(&operator::namespace());
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        let (first, own, lives) = (root(test).await?, leaf(&poc).await?, cluster::lives(&poc.pods().await?));
        let good = authority(DAY * 365, Timestamp::now())?;
        let mine = Mine::put(test, &good.certificate_pem()?, &good.key_pem()?).await?;
        want_root(test, MINE).await?;
        assert_eq!(another_root(test, &first).await?, good.thumbprint().to_string());
        let new = another_leaf(&poc, &own).await?;
        assert_eq!(new.root, good.thumbprint());
        all_show(&poc, &new, 3).await?;
        only_trusts(test, &good.thumbprint().to_string()).await?;
        mine.take_away().await?;
        assert_eq!(another_root(test, good.thumbprint().as_str()).await?, first, "the operator's own is still there");
        connected(&poc, 3).await?;
        assert_eq!(cluster::lives(&poc.pods().await?), lives, "a new root restarted pods");
        Ok(())
    })
}

/// Of the roots that pods mount.
async fn only_trusts(test: &Test, thumbprint: &str) -> Result<()> {
    test.wait_for("the old root to be taken out of the pods' Secret", Duration::from_secs(30), async || {
        let secret = test.api::<Secret>().get("poc-mtls").await?;
        let roots: Vec<String> =
            Bundle::from_pem(part(&secret, "ca.crt"))?.thumbprints().iter().map(ToString::to_string).collect();
        Ok(e2e::Verdict::when(roots == [thumbprint], || format!("{roots:?}")))
    })
    .await
}

#[test]
fn a_bad_root_is_refused_with_every_reason_and_the_one_before_stays() -> Result<()> {
    let scenario = Scenario::named("a-bad-root-is-refused").alone("it changes the root that all tests need");
    scenario.run(async |test| {
        let (before, now) = (root(test).await?, Timestamp::now());
        let good = authority(DAY * 365, now)?;
        let expired = authority(HOUR, now - SignedDuration::from_hours(48))?;
        let below = good.intermediate(&Scope::cluster("team-a", "poc")?, DAY, now, &SystemRandomness)?;
        let leaf = below.leaf(&Scope::cluster("team-a", "poc")?.identity(), HOUR, now, &SystemRandomness)?;
        let cases = [
            (expired.certificate_pem()?, expired.key_pem()?, "expired at"),
            (good.certificate_pem()?, expired.key_pem()?, "does not belong to the certificate"),
            (leaf.chain_pem.clone(), leaf.key_pem.clone(), "no certificate authority"),
            (below.certificate_pem()?, below.key_pem()?, "path length of 0"),
            ("nonsense".to_owned(), good.key_pem()?, "holds no readable certificate"),
        ];
        for (certificate, key, reason) in cases {
            let mine = Mine::put(test, &certificate, &key).await?;
            want_root(test, MINE).await?;
            let message = root_says(test, "OwnAuthorityRefused").await?;
            assert!(message.contains(reason), "wanted: {reason}; said: {message}");
            assert!(message.contains("stays in use"), "{message}");
            assert_eq!(root(test).await?, before);
            mine.take_away().await?;
        }
        let poc = Cluster::create(test, "poc", json!({})).await?;
        poc.ready().await?;
        assert_eq!(crate::stored::leaf(&poc).await?.root.as_str(), before);
        Ok(())
    })
}
