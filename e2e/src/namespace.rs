//! Namespaces of the tests: how they are named (pure) and how they come and go. Called by `scenario`.

use crate::wait::wait_for_object;
use crate::{test::PATIENCE, verdict::Verdict};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use std::hash::{BuildHasher, Hasher, RandomState};

const LONGEST_LABEL: usize = 63;
pub const TEST_LABEL: &str = "e2e.valkey.io/test";

/// A DNS label made of the test's name and a suffix; the suffix is never cut off, since it keeps parallel runs apart.
pub fn name_for(test: &str, suffix: &str) -> String {
    let words: String =
        test.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let room = LONGEST_LABEL.saturating_sub(suffix.len() + "e2e--".len());
    let short: String = words.trim_matches('-').chars().take(room).collect();
    format!("e2e-{}-{suffix}", short.trim_end_matches('-'))
}

pub fn random_suffix() -> String {
    // Every RandomState is seeded afresh, which is all the randomness a name needs.
    format!("{:08x}", RandomState::new().build_hasher().finish() & 0xffff_ffff)
}

pub async fn create(client: &Client, test: &str, pod_security: &str) -> Result<String> {
    let name = name_for(test, &random_suffix());
    let label = name_for(test, "x").trim_start_matches("e2e-").trim_end_matches("-x").to_owned();
    let labels =
        [("pod-security.kubernetes.io/enforce".to_owned(), pod_security.to_owned()), (TEST_LABEL.to_owned(), label)];
    let metadata = ObjectMeta { name: Some(name.clone()), labels: Some(labels.into()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    let api = Api::<Namespace>::all(client.clone());
    api.create(&PostParams::default(), &namespace).await.with_context(|| format!("create namespace {name}"))?;
    match wait_for_service_account(client, &name).await {
        Ok(()) => Ok(name),
        Err(error) => {
            delete(client, &name).await?;
            Err(error)
        }
    }
}

/// Pods are refused until the controller-manager has made the namespace's default service account.
pub async fn wait_for_service_account(client: &Client, namespace: &str) -> Result<()> {
    let api = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let what = format!("the default service account of {namespace}");
    wait_for_object(api, "default", &what, PATIENCE, |account| {
        Verdict::when(account.is_some(), || "it does not exist; is the controller-manager running?".to_owned())
    })
    .await?;
    Ok(())
}

/// Asks for the deletion and does not wait: the next test needs nothing that this one leaves while it goes.
pub async fn delete(client: &Client, name: &str) -> Result<()> {
    let api = Api::<Namespace>::all(client.clone());
    api.delete(name, &DeleteParams::default()).await.with_context(|| format!("delete namespace {name}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_dns_label_of_test_and_suffix() {
        assert_eq!(name_for("Node cut: heals!", "0a1b"), "e2e-node-cut--heals-0a1b");
    }

    #[test]
    fn a_long_name_is_cut_but_keeps_its_suffix() {
        let name = name_for(&"long-test-name-".repeat(10), "0123abcd");
        assert!(name.len() <= LONGEST_LABEL, "{name}");
        assert!(name.ends_with("-0123abcd"), "{name}");
    }

    #[test]
    fn a_cut_never_leaves_two_dashes_before_the_suffix() {
        let test = format!("{}-tail", "x".repeat(50));
        assert!(!name_for(&test, "0123abcd").contains("--"), "{}", name_for(&test, "0123abcd"));
    }

    #[test]
    fn two_suffixes_differ() {
        assert_ne!(random_suffix(), random_suffix());
    }
}
