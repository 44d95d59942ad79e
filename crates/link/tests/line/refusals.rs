//! Twelve ways to be refused, each on a real socket, each counted by its reason.

use crate::{
    certificates::{CLUSTER, Installation, NAMESPACE, operator_id, uri, valid},
    operator::{DEADLINE, Running, until},
    raw::{self, attempt, beat, client, code},
    sidecar::{Connected, Disk, sender, token_of},
};
use anyhow::{Result, ensure};
use link::{
    contract::{Fence, Probe, RefusedReason, Revisions, answer::Outcome, command::Action},
    server::Leadership,
};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose};
use std::sync::atomic::Ordering;
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tonic::Code;

/// A client with this spoiled certificate gets no answer, and the reason is counted.
async fn spoiled_is_refused(reason: &str, spoil: impl FnOnce(&mut CertificateParams) -> Result<()>) -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let identity = installation.spoiled(spoil)?;
    ensure!(attempt(running.address, Some(identity)).await.is_err(), "it was let in");
    running.refused(reason).await?;
    ensure!(running.beats() == 0);
    // The same with nothing spoiled is let in: the refusal was for this reason alone.
    attempt(running.address, Some(installation.spoiled(|_| Ok(()))?)).await?;
    Ok(())
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() -> Result<()> {
    let running = Running::start(&Installation::new()?).await?;
    ensure!(attempt(running.address, None).await.is_err());
    running.refused("NoCertificate").await
}

#[tokio::test]
async fn an_expired_certificate_is_refused() -> Result<()> {
    spoiled_is_refused("Expired", |params| {
        valid(params, -7200, -3600);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_certificate_that_is_not_yet_valid_is_refused() -> Result<()> {
    spoiled_is_refused("NotYetValid", |params| {
        valid(params, 3600, 7200);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_certificate_of_another_trust_domain_is_refused() -> Result<()> {
    spoiled_is_refused("OtherTrustDomain", |params| {
        params.subject_alt_names = vec![uri("team-b", CLUSTER)?];
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_certificate_with_two_uri_names_is_refused() -> Result<()> {
    spoiled_is_refused("SeveralUriNames", |params| {
        params.subject_alt_names.push(uri(NAMESPACE, "payments")?);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_certificate_authority_as_leaf_is_refused() -> Result<()> {
    spoiled_is_refused("CertificateAuthorityAsLeaf", |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_certificate_with_the_wrong_key_usage_is_refused() -> Result<()> {
    spoiled_is_refused("WrongKeyUsage", |params| {
        params.key_usages = vec![KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_certificate_of_another_installation_is_refused() -> Result<()> {
    let running = Running::start(&Installation::new()?).await?;
    let stranger = Installation::new()?.identity(NAMESPACE, CLUSTER)?;
    ensure!(attempt(running.address, Some(stranger)).await.is_err());
    running.refused("BadSignature").await
}

#[tokio::test]
async fn another_clusters_sidecar_is_refused() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, "payments")?)).await?;
    let claimed = sender(NAMESPACE, CLUSTER, "orders-0");
    let result = client.heartbeat(beat(claimed, Some("team-a/orders/orders-0"))?).await;
    ensure!(code(&result) == Some(Code::PermissionDenied), "{result:?}");
    ensure!(running.counted.count("OtherCluster") == 1 && running.beats() == 0);
    // With a token of its own it cannot speak for the other either.
    let mut second = raw::client(running.address, Some(installation.identity(NAMESPACE, "payments")?)).await?;
    let claimed = sender(NAMESPACE, CLUSTER, "orders-0");
    let result = second.heartbeat(beat(claimed, Some("team-a/payments/orders-0"))?).await;
    ensure!(code(&result) == Some(Code::PermissionDenied), "{result:?}");
    ensure!(running.counted.count("OtherCluster") == 2 && running.beats() == 0);
    Ok(())
}

#[tokio::test]
async fn a_token_of_another_clusters_pod_is_refused() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    let result =
        client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), Some("team-a/payments/orders-0"))?).await;
    ensure!(code(&result) == Some(Code::PermissionDenied), "{result:?}");
    ensure!(running.counted.count("OtherCluster") == 1 && running.beats() == 0);
    Ok(())
}

#[tokio::test]
async fn another_pods_name_is_refused_on_every_call_of_the_connection() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    let token = Some("team-a/orders/orders-1");
    let result = client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), token)?).await;
    ensure!(code(&result) == Some(Code::PermissionDenied), "{result:?}");
    client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-1"), token)?).await?;
    // Proven as one pod, it cannot become another, whatever token it shows.
    let other = beat(sender(NAMESPACE, CLUSTER, "orders-0"), Some("team-a/orders/orders-0"))?;
    let result = client.heartbeat(other).await;
    ensure!(code(&result) == Some(Code::PermissionDenied), "{result:?}");
    ensure!(running.counted.count("OtherPod") == 2 && running.beats() == 1);
    Ok(())
}

#[tokio::test]
async fn a_connection_without_a_pods_token_is_refused() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    let pod = || sender(NAMESPACE, CLUSTER, "orders-0");
    ensure!(code(&client.heartbeat(beat(pod(), None)?).await) == Some(Code::Unauthenticated));
    ensure!(code(&client.heartbeat(beat(pod(), Some("nonsense"))?).await) == Some(Code::Unauthenticated));
    ensure!(running.counted.count("NoPodProof") == 1 && running.counted.count("PodProof") == 1);
    Ok(())
}

#[tokio::test]
async fn a_refused_token_is_not_looked_at_again_on_the_same_connection() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut first = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    for token in ["nonsense", "team-a/orders/orders-0"] {
        let result = first.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), Some(token))?).await;
        ensure!(code(&result) == Some(Code::Unauthenticated), "{token}: {result:?}");
    }
    ensure!(running.tokens.asked.load(Ordering::Relaxed) == 1);
    let mut second = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    second.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), Some("team-a/orders/orders-0"))?).await?;
    Ok(())
}

#[tokio::test]
async fn a_connection_does_not_outlive_the_proof_of_its_pod() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    let token = Some("team-a/orders/orders-0");
    client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), token)?).await?;
    running.tokens.taken_back.store(true, Ordering::Relaxed);
    let result = client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), token)?).await;
    ensure!(code(&result) == Some(Code::Unauthenticated), "{result:?}");
    ensure!(running.counted.count("PodProof") == 1 && running.beats() == 1);
    Ok(())
}

#[tokio::test]
async fn plain_http2_is_refused() -> Result<()> {
    let running = Running::start(&Installation::new()?).await?;
    let mut stream = TcpStream::connect(running.address).await?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
    running.refused("NotTls").await
}

#[tokio::test]
async fn an_oversized_message_is_refused_and_the_connection_lives() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    let pod = || sender(NAMESPACE, CLUSTER, "orders-0");
    let mut large = beat(pod(), Some("team-a/orders/orders-0"))?;
    let refused = vec!["x".repeat(1000); 100];
    large.get_mut().revisions = Some(Revisions { refused, ..Revisions::default() });
    ensure!(code(&client.heartbeat(large).await) == Some(Code::OutOfRange));
    ensure!(running.counted.count("OversizedMessage") == 1 && running.beats() == 0);
    client.heartbeat(beat(pod(), Some("team-a/orders/orders-0"))?).await?;
    Ok(())
}

fn fence(epoch: u64, step: u64) -> Fence {
    let cluster_uid = sender(NAMESPACE, CLUSTER, "orders-0").cluster_uid;
    Fence { cluster_uid, orchestration_id: "job".into(), step_version: step, epoch }
}

#[tokio::test]
async fn a_replayed_command_with_a_lower_epoch_is_refused_by_the_sidecar_even_after_its_restart() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    running.leadership.send_replace(Leadership::Leader { epoch: 5 });
    running.received.stay_connected.store(true, Ordering::Relaxed);
    let disk = Disk::default();
    let probe = || Action::Probe(Probe {});
    for lives in 1..=2 {
        let credentials = installation.sidecar(NAMESPACE, CLUSTER)?;
        let sidecar = Connected::start(vec![running.address.to_string()], credentials, "orders-0", &disk)?;
        let session = running.session().await?;
        if lives == 1 {
            let done = session.command(fence(5, 1), probe(), DEADLINE).await?;
            ensure!(matches!(done, Outcome::Done(_)), "{done:?}");
            sidecar.node.executed.lock().unwrap().clear();
        }
        let Outcome::Refused(refused) = session.command(fence(4, 2), probe(), DEADLINE).await? else {
            anyhow::bail!("the lower epoch was obeyed in life {lives}");
        };
        ensure!(refused.reason() == RefusedReason::StaleEpoch && refused.highest_epoch == 5, "{refused:?}");
        ensure!(sidecar.node.executed.lock().unwrap().is_empty(), "the command was carried out");
    }
    Ok(())
}

#[tokio::test]
async fn a_sidecar_speaks_only_to_the_operators_exact_identity() -> Result<()> {
    let installation = Installation::new()?;
    // Another cluster's sidecar of the same installation poses as the operator.
    let impostor = installation.sidecar(NAMESPACE, "payments")?;
    let leads = Leadership::Leader { epoch: 1 };
    let running = Running::at(([127, 0, 0, 1], 0).into(), impostor, Default::default(), leads).await?;
    let credentials = installation.sidecar(NAMESPACE, CLUSTER)?;
    let sidecar = Connected::start(vec![running.address.to_string()], credentials, "orders-0", &Disk::default())?;
    let problem = || sidecar.state.borrow().problem.clone().unwrap_or_default();
    let expected = operator_id()?.to_string();
    until("the sidecar's refusal", || problem().contains(&expected)).await?;
    ensure!(running.beats() == 0 && !sidecar.connected(), "within {DEADLINE:?}: {}", problem());
    Ok(())
}

#[tokio::test]
async fn whose_token_was_refused_and_why_is_told_once_a_connection_and_only_of_the_own_cluster() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    for token in ["old:team-a/orders/orders-0", "old:team-a/payments/payments-0", "nonsense"] {
        let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
        for _ in 0..2 {
            let result = client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), Some(token))?).await;
            ensure!(code(&result) == Some(Code::Unauthenticated), "{token}: {result:?}");
        }
    }
    let told = running.received.turned_away.lock().unwrap().clone();
    ensure!(told == [("orders-0".to_owned(), "its service account was made anew".to_owned())], "{told:?}");
    Ok(())
}

#[tokio::test]
async fn a_sidecar_whose_token_was_refused_comes_with_the_next_one_that_the_kubelet_brings() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let (addresses, old) = (vec![running.address.to_string()], format!("old:{}", token_of("orders-0")));
    let sidecar = Connected::with_token(
        addresses,
        installation.sidecar(NAMESPACE, CLUSTER)?,
        ("orders-0", &old),
        &Disk::default(),
    )?;
    until("a refusal", || !running.received.turned_away.lock().unwrap().is_empty()).await?;
    ensure!(!sidecar.connected());
    *sidecar.node.token.lock().unwrap() = token_of("orders-0");
    until("the connection", || sidecar.connected()).await
}
