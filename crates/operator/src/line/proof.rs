//! Proves which pod speaks: the API server vouches for its token, the watches say whose pod that is. One review for a token,
//! however often its pod connects, and few at a time however many pods come at once.

use super::scopes::{Scopes, WatchedScope};
use super::token::{self, Holder};
use crate::metrics::{Metrics, Outcome};
use api::names::{self, LINE_AUDIENCE};
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::core::Status;
use link::server::{PodProof, ProofError, ProvenPod};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Reviews under way at once: they pass 10,000 pods within seconds and leave the API server room for others.
const REVIEWS: usize = 32;
/// Tokens remembered; above the pods of one operator.
const MOST: usize = 20_000;
/// Pods of one cluster, at most.
const MOST_PODS: u32 = 1000;
/// A pod that speaks before the watches have brought it is waited for.
const NEWS: Duration = Duration::from_secs(3);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Asks the API server about a token.
pub trait Reviewer: Send + Sync + 'static {
    fn review<'a>(&'a self, token: &'a str) -> BoxFuture<'a, kube::Result<TokenReviewStatus>>;
}

impl Reviewer for Api<TokenReview> {
    fn review<'a>(&'a self, token: &'a str) -> BoxFuture<'a, kube::Result<TokenReviewStatus>> {
        let spec = TokenReviewSpec { audiences: Some(vec![LINE_AUDIENCE.to_owned()]), token: token.to_owned() };
        let review = TokenReview { spec, ..TokenReview::default() };
        Box::pin(async move {
            let answer = self.create(&PostParams::default(), &review).await?;
            Ok(answer.status.unwrap_or_default())
        })
    }
}

type Key = [u8; 32];

pub struct TokenProof {
    reviewer: Box<dyn Reviewer>,
    scopes: Arc<Scopes>,
    metrics: Arc<Metrics>,
    at_once: Semaphore,
    /// By the token's digest; the token itself is not kept.
    known: Mutex<HashMap<Key, (Holder, Timestamp)>>,
}

impl TokenProof {
    pub fn new(reviewer: impl Reviewer, scopes: Arc<Scopes>, metrics: Arc<Metrics>) -> Self {
        let (at_once, known) = (Semaphore::new(REVIEWS), Mutex::default());
        Self { reviewer: Box::new(reviewer), scopes, metrics, at_once, known }
    }

    async fn holder(&self, token: &str) -> Result<Holder, ProofError> {
        let key: Key = Sha256::digest(token.as_bytes()).into();
        if let Some(holder) = self.remembered(&key) {
            return Ok(holder);
        }
        let _turn = self.at_once.acquire().await.map_err(|_| unavailable("the operator is stopping"))?;
        let reviewed = self.reviewer.review(token).await.map_err(|error| unavailable(&words(&error)));
        let found = reviewed.and_then(|status| token::holder(&status));
        self.metrics.token_reviews.get_or_create(&Outcome { outcome: outcome(&found) }).inc();
        let holder = found?;
        if let Some(ends) = token::expiry(token) {
            self.remember(key, &holder, ends);
        }
        Ok(holder)
    }

    fn remembered(&self, key: &Key) -> Option<Holder> {
        let known = self.known();
        known.get(key).filter(|(_, ends)| *ends > Timestamp::now()).map(|(holder, _)| holder.clone())
    }

    fn remember(&self, key: Key, holder: &Holder, ends: Timestamp) {
        let mut known = self.known();
        if known.len() >= MOST {
            let now = Timestamp::now();
            known.retain(|_, (_, ends)| *ends > now);
        }
        if known.len() < MOST {
            known.insert(key, (holder.clone(), ends));
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, (Holder, Timestamp)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn belonging(&self, holder: &Holder) -> Result<ProvenPod, ProofError> {
        let scope = self.scopes.scope(&holder.namespace);
        let scope = scope.ok_or_else(|| unavailable("the operator does not look after this namespace yet"))?;
        // The caller bounds how long this takes.
        scope.cache.complete().await;
        let began = tokio::time::Instant::now();
        loop {
            match ours(&scope, holder) {
                Err(_) if began.elapsed() < NEWS => tokio::time::sleep(BETWEEN_LOOKS).await,
                found => return found.map_err(|why| ProofError::Refused(why.to_owned())),
            }
        }
    }
}

impl PodProof for TokenProof {
    fn prove<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<ProvenPod, ProofError>> {
        Box::pin(async move { self.belonging(&self.holder(token).await?).await })
    }

    fn claims(&self, token: &str) -> Option<ProvenPod> {
        let (namespace, pod, pod_uid) = token::claimed_pod(token)?;
        let scope = self.scopes.scope(&namespace)?;
        let (cluster, _) = scope.pod(&namespace, &pod).filter(|(_, facts)| facts.uid == pod_uid)?;
        let cluster_uid = scope.cluster(&cluster)?;
        Some(ProvenPod { namespace, cluster: cluster.name, cluster_uid, pod, pod_uid })
    }

    /// Only what a lookup tells for certain: nothing is refused on lists that are not there yet.
    fn holds(&self, pod: &ProvenPod) -> Result<(), ProofError> {
        match self.scopes.scope(&pod.namespace) {
            Some(scope) if scope.cache.missing().is_empty() => {
                is_there(&scope, pod).map_err(|why| ProofError::Refused(why.to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// The pod and its cluster, under the UIDs they had. Not whose the pod is: while its StatefulSet is made anew it is nobody's.
fn is_there(scope: &WatchedScope, proven: &ProvenPod) -> Result<(), &'static str> {
    let (cluster, pod) = scope.pod(&proven.namespace, &proven.pod).ok_or("its pod is gone")?;
    if pod.uid != proven.pod_uid {
        return Err("its pod has been replaced by another of the same name");
    }
    if scope.cluster(&cluster).as_ref() != Some(&proven.cluster_uid) {
        return Err("its ValkeyCluster is gone");
    }
    Ok(())
}

/// The pod must be the one of that UID, one of the StatefulSet of a cluster that exists, under that cluster's account. Whoever creates
/// a pod writes its owner; but one that is not called like a pod of the StatefulSet is none of it.
fn ours(scope: &WatchedScope, holder: &Holder) -> Result<ProvenPod, &'static str> {
    let (cluster, pod) = scope.pod(&holder.namespace, &holder.pod).ok_or("its pod is none of this operator's")?;
    if pod.uid != holder.pod_uid {
        return Err("its pod has been replaced by another of the same name");
    }
    if pod.controller.is_none() || pod.controller != scope.stateful_set(&cluster) {
        return Err("its pod was not made by the StatefulSet of a ValkeyCluster");
    }
    if !is_ordinal_name(&holder.pod, &cluster.name) {
        return Err("its name is not that of a pod of the StatefulSet");
    }
    if holder.service_account != names::service_account(&cluster.name) {
        return Err("its service account is not the cluster's");
    }
    let cluster_uid = scope.cluster(&cluster).ok_or("its ValkeyCluster is gone")?;
    Ok(ProvenPod {
        namespace: cluster.namespace,
        cluster: cluster.name,
        cluster_uid,
        pod: holder.pod.clone(),
        pod_uid: holder.pod_uid.clone(),
    })
}

fn is_ordinal_name(pod: &str, cluster: &str) -> bool {
    let ordinal = pod.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse::<u32>().ok());
    ordinal.is_some_and(|ordinal| ordinal < MOST_PODS && names::pod(cluster, ordinal) == pod)
}

fn outcome(found: &Result<Holder, ProofError>) -> &'static str {
    match found {
        Ok(_) => "proven",
        Err(ProofError::Refused(_)) => "refused",
        Err(ProofError::Unavailable(_)) => "unavailable",
    }
}

fn unavailable(why: &str) -> ProofError {
    ProofError::Unavailable(why.to_owned())
}

fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!(
                "the operator may not create TokenReviews: allow it (rbac.tokenReviews of the chart): {}",
                message(status)
            )
        }
        kube::Error::Api(status) => message(status).to_owned(),
        error => error.to_string(),
    }
}

fn message(status: &Status) -> &str {
    &status.message
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
