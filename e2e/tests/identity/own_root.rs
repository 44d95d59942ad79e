//! A root of the user's own: taken over step by step when it is good, refused with the reason when it is not.

use crate::stored::{
    all_show, another_leaf, another_root, connected, delete_secret, leaf, operator_secrets, part, root, root_says,
    want_root,
};
use anyhow::{Context, Result};
use api::certificates::names;
use e2e::{Cluster, Scenario, Test, cluster, operator, operator::StoppedOperator};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams, PostParams};
use pki::{Authority, Bundle, Scope, SystemRandomness, Thumbprint};
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
    test.wait_for("the old root to be taken out of the pods' Secret", e2e::PATIENCE, async || {
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

/// What is in the Secret that the ValkeyCA names by default is another root; its labels and notes stay, as with `kubectl edit`.
async fn replace_default(test: &Test, certificate: &[u8], key: &[u8]) -> Result<()> {
    let bytes = |text: &[u8]| ByteString(text.to_vec());
    let patch = json!({ "data": { "tls.crt": bytes(certificate), "tls.key": bytes(key) } });
    let api = operator_secrets(test);
    api.patch(names::ROOT_SECRET, &PatchParams::default(), &Patch::Merge(&patch)).await.context("replace the root")?;
    Ok(())
}

async fn is_refused(test: &Test, certificate: &str, key: &str, reason: &str, before: &str) -> Result<()> {
    replace_default(test, certificate.as_bytes(), key.as_bytes()).await?;
    test.wait_for(&format!("the refusal: {reason}"), e2e::PATIENCE, async || {
        let message = root_says(test, "OwnAuthorityRefused").await?;
        Ok(e2e::Verdict::when(message.contains(reason) && message.contains("stays in use"), || message.clone()))
    })
    .await?;
    let left = operator_secrets(test).get(names::ROOT_SECRET).await?;
    assert_eq!(part(&left, "tls.crt"), certificate.as_bytes(), "what somebody else put there was overwritten");
    assert_eq!(root(test).await?, before);
    Ok(())
}

#[test]
fn a_bad_root_in_the_operators_own_secret_is_refused_and_the_one_before_goes_on_signing() -> Result<()> {
    let scenario = Scenario::named("a-bad-root-in-the-default").alone("it changes the root that all tests need");
    scenario.run(async |test| {
        test.also_collect(&operator::namespace());
        let (before, now) = (root(test).await?, Timestamp::now());
        let whole = operator_secrets(test).get(names::ROOT_SECRET).await?;
        assert_eq!(Thumbprint::of_pem(part(&whole, "tls.crt")).map(|found| found.to_string()).as_ref(), Some(&before));
        let expired = authority(HOUR, now - SignedDuration::from_hours(48))?;
        let below =
            authority(DAY * 365, now)?.intermediate(&Scope::cluster("team-a", "poc")?, DAY, now, &SystemRandomness)?;
        let leaf = below.leaf(&Scope::cluster("team-a", "poc")?.identity(), HOUR, now, &SystemRandomness)?;
        let outcome = async {
            is_refused(test, &expired.certificate_pem()?, &expired.key_pem()?, "expired at", &before).await?;
            is_refused(test, &leaf.chain_pem, &leaf.key_pem, "no certificate authority", &before).await?;
            // A process that has it only from the Secrets signs with the one before, too.
            StoppedOperator::stop(test).await?.start().await?;
            let poc = Cluster::create(test, "poc", json!({})).await?;
            poc.ready().await?;
            assert_eq!(crate::stored::leaf(&poc).await?.root.as_str(), before);
            connected(&poc, 3).await
        }
        .await;
        replace_default(test, part(&whole, "tls.crt"), part(&whole, "tls.key")).await?;
        outcome?;
        root_says(test, "Valid").await?;
        assert_eq!(root(test).await?, before, "it is the operator's again, and nothing was rotated");
        Ok(())
    })
}
