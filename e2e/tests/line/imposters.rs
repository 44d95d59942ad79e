//! Sidecars that are not who they say: each has something real of a cluster and is turned away with the reason. The last one is
//! real in everything and is let in, so that the others are known to fail for their own reasons.

use crate::connected::all_connected;
use anyhow::{Context, Result, ensure};
use api::names::{self, LINE_AUDIENCE};
use e2e::{
    Cluster, Scenario, Test, Verdict, forward::Forward, operator, replicas::operator_pods, test::PATIENCE, workload,
};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec},
    core::v1::{Pod, Secret, ServiceAccount},
};
use kube::{Api, ResourceExt, api::PostParams};
use link::{
    Credentials,
    client::{Fence, Line, LineParts, Node, Notice, Order, Times},
    contract::{HeartbeatRequest, Sender, answer::Outcome},
};
use serde_json::json;
use std::{io, sync::Arc};
use tokio::sync::{mpsc, watch};
use zeroize::Zeroizing;

#[test]
fn a_sidecar_cannot_speak_for_another_pod_or_cluster() -> Result<()> {
    let scenario = Scenario::named("a-sidecar-cannot-speak-for-another");
    scenario.run(async |test| {
        let [victim, thief] =
            [Cluster::create(test, "victim", json!({})).await?, Cluster::create(test, "thief", json!({})).await?];
        all_connected(&victim, 3).await?;
        all_connected(&thief, 3).await?;
        let line = LineClient::open(test).await?;
        let own = line.words(&thief, 0).await?;
        let cases = [
            (line.words(&victim, 0).await?, line.token(&thief, "thief-0").await?, "certificate is another cluster's"),
            (line.words(&victim, 0).await?, line.token(&victim, "victim-0").await?, "certificate is another cluster's"),
            (own.clone(), line.token(&victim, "victim-0").await?, "certificate is another cluster's"),
            (line.words(&thief, 1).await?, line.token(&thief, "thief-0").await?, "token is another pod's"),
            (own.clone(), line.loose_token(&thief).await?, "bound to no pod"),
            (own.clone(), line.foreign_token(&thief).await?, "token was refused"),
            (own.clone(), line.stranger_token(&thief).await?, "none of this operator's"),
        ];
        for (words, token, refusal) in cases {
            line.refused(&thief, words, token, refusal).await?;
        }
        let token = line.token(&thief, "thief-0").await?;
        line.useless_elsewhere(&token).await?;
        line.admitted(&thief, own, token).await
    })
}

/// The way to the operator, and everything an attacker may have got hold of.
struct LineClient<'a> {
    test: &'a Test,
    forward: Forward,
}

impl<'a> LineClient<'a> {
    async fn open(test: &'a Test) -> Result<Self> {
        let pod = operator_pods(test).await?.pop().context("the operator has a pod")?;
        let pods = Api::<Pod>::namespaced(test.client(), &operator::namespace());
        Ok(Self { test, forward: Forward::listen(pods, &pod, 8443).await? })
    }

    async fn words(&self, cluster: &Cluster<'_>, ordinal: u32) -> Result<Sender> {
        let pod = self.test.api::<Pod>().get(&cluster.pod(ordinal)).await.context("read a pod")?;
        Ok(Sender {
            namespace: self.test.namespace.clone(),
            cluster: cluster.name.clone(),
            cluster_uid: cluster.get().await?.uid().unwrap_or_default(),
            pod: pod.name_any(),
            pod_uid: pod.uid().unwrap_or_default(),
            sidecar_version: "0.1.0".to_owned(),
        })
    }

    /// What the kubelet puts into that pod.
    async fn token(&self, cluster: &Cluster<'_>, pod: &str) -> Result<String> {
        let uid = self.test.api::<Pod>().get(pod).await.context("read a pod")?.uid();
        let reference = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.to_owned()),
            uid,
        };
        self.make_token(cluster, LINE_AUDIENCE, Some(reference)).await
    }

    async fn loose_token(&self, cluster: &Cluster<'_>) -> Result<String> {
        self.make_token(cluster, LINE_AUDIENCE, None).await
    }

    /// One that the Kubernetes API would take.
    async fn foreign_token(&self, cluster: &Cluster<'_>) -> Result<String> {
        self.make_token(cluster, "https://kubernetes.default.svc", None).await
    }

    /// Of a pod that somebody made under the cluster's account.
    async fn stranger_token(&self, cluster: &Cluster<'_>) -> Result<String> {
        let mut pod = workload::echo_pod("stranger");
        if let Some(spec) = &mut pod.spec {
            spec.service_account_name = Some(names::service_account(&cluster.name));
        }
        self.test.apply(&pod).await?;
        self.token(cluster, "stranger").await
    }

    async fn make_token(
        &self,
        cluster: &Cluster<'_>,
        audience: &str,
        bound_object_ref: Option<BoundObjectReference>,
    ) -> Result<String> {
        let spec = TokenRequestSpec {
            audiences: Some(vec![audience.to_owned()]),
            bound_object_ref,
            expiration_seconds: Some(600),
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let account = names::service_account(&cluster.name);
        let accounts = self.test.api::<ServiceAccount>();
        let made = accounts.create_token_request(&account, &PostParams::default(), &request).await;
        made.context("make a token")?.status.and_then(|status| status.token).context("the answer has no token")
    }

    async fn credentials(&self, cluster: &Cluster<'_>) -> Result<Credentials> {
        let secret = self.test.api::<Secret>().get(&names::mtls_secret(&cluster.name)).await.context("the identity")?;
        let data = secret.data.context("it has data")?;
        let part = |name: &str| data.get(name).map(|bytes| bytes.0.clone()).with_context(|| format!("no {name}"));
        Ok(Credentials::from_pem(&part("tls.crt")?, &part("tls.key")?, &part("ca.crt")?)?)
    }

    /// Connects with that cluster's certificate; gives what the operator said in the end, nothing when it let it in.
    async fn speak(&self, cluster: &Cluster<'_>, words: Sender, token: String) -> Result<Option<String>> {
        let credentials = watch::Sender::new(Arc::new(self.credentials(cluster).await?));
        let line = Line::new(LineParts {
            fence: Arc::new(Fence::unwritten(words.cluster_uid.clone(), 0)),
            node: Arc::new(Imposter { words, token }),
            addresses: vec![self.forward.address.to_string()],
            operator: pki::identity::operator(&operator::namespace())?,
            credentials: credentials.subscribe(),
            times: Times::default(),
        })?;
        let (state, (_notices, received)) = (line.state(), mpsc::channel::<Notice>(1));
        let task = tokio::spawn(line.run(received));
        let answer = self.test.wait_for("the operator's word", PATIENCE, async || {
            let state = state.borrow().clone();
            let waiting = "no connection yet";
            Ok(match (state.connected, state.problem) {
                (true, _) => Verdict::Met(None),
                (false, Some(problem)) if problem.contains("refused a call") => Verdict::Met(Some(problem)),
                (false, problem) => Verdict::NotYet(problem.unwrap_or_else(|| waiting.to_owned())),
            })
        });
        let answer = answer.await;
        task.abort();
        answer
    }

    async fn refused(&self, cluster: &Cluster<'_>, words: Sender, token: String, why: &str) -> Result<()> {
        let said = format!("{} of {}", words.pod, words.cluster);
        let answer = self.speak(cluster, words, token).await?;
        ensure!(answer.as_ref().is_some_and(|text| text.contains(why)), "as {said}: {answer:?}, wanted {why:?}");
        Ok(())
    }

    /// The API server itself does not take it.
    async fn useless_elsewhere(&self, token: &str) -> Result<()> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = Api::<TokenReview>::all(self.test.client()).create(&PostParams::default(), &review).await?;
        let accepted = answer.status.and_then(|status| status.authenticated) == Some(true);
        ensure!(!accepted, "the Kubernetes API accepts a sidecar's token");
        Ok(())
    }

    async fn admitted(&self, cluster: &Cluster<'_>, words: Sender, token: String) -> Result<()> {
        let answer = self.speak(cluster, words, token).await?;
        ensure!(answer.is_none(), "a real sidecar was refused: {answer:?}");
        Ok(())
    }
}

struct Imposter {
    words: Sender,
    token: String,
}

impl Node for Imposter {
    fn sender(&self) -> Sender {
        self.words.clone()
    }

    async fn token(&self) -> io::Result<Zeroizing<String>> {
        Ok(Zeroizing::new(self.token.clone()))
    }

    async fn heartbeat(&self) -> HeartbeatRequest {
        HeartbeatRequest::default()
    }

    async fn execute(&self, _: Order) -> Outcome {
        std::future::pending().await
    }
}
