//! Certificates change under load, at both ends, and no call fails.

use crate::{
    certificates::{CLUSTER, Installation, NAMESPACE},
    operator::{DEADLINE, Running, until},
    sidecar::{Connected, Disk},
};
use anyhow::{Result, ensure};
use link::contract::{Fence, Probe, answer::Outcome, command::Action};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Some sidecars that speak all the time.
async fn busy(running: &Running, installation: &Installation, count: usize) -> Result<Vec<Connected>> {
    *running.received.next.lock().unwrap() = Duration::from_millis(250);
    let mut sidecars = Vec::new();
    for number in 0..count {
        let credentials = installation.sidecar(NAMESPACE, CLUSTER)?;
        let addresses = vec![running.address.to_string()];
        sidecars.push(Connected::start(addresses, credentials, &format!("orders-{number}"), &Disk::default())?);
    }
    until("all sidecars", || sidecars.iter().all(Connected::connected)).await?;
    Ok(sidecars)
}

/// A refused call would have ended a connection, and left its problem in the state's history; a watcher keeps it.
fn problems(sidecars: &[Connected]) -> Vec<tokio::task::JoinHandle<Option<String>>> {
    let watch = |sidecar: &Connected| {
        let mut state = sidecar.state.clone();
        tokio::spawn(async move {
            match state.wait_for(|state| state.problem.is_some()).await {
                Ok(state) => state.problem.clone(),
                Err(_) => None,
            }
        })
    };
    sidecars.iter().map(watch).collect()
}

async fn nothing_failed(running: &Running, problems: Vec<tokio::task::JoinHandle<Option<String>>>) -> Result<()> {
    for problem in problems {
        ensure!(!problem.is_finished(), "a sidecar lost its line: {:?}", problem.await?);
        problem.abort();
    }
    ensure!(running.counted.refusals().is_empty(), "{:?}", running.counted.refusals());
    Ok(())
}

#[tokio::test]
async fn new_leaves_at_both_ends_fail_no_call() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let sidecars = busy(&running, &installation, 10).await?;
    let problems = problems(&sidecars);
    for _ in 0..5 {
        running.credentials.send_replace(Arc::new(installation.operator()?));
        for sidecar in &sidecars {
            let fresh = Arc::new(installation.sidecar(NAMESPACE, CLUSTER)?);
            let thumbprint = fresh.thumbprint().to_string();
            sidecar.credentials.send_replace(fresh);
            until("the new certificate in use", || sidecar.state.borrow().certificate == thumbprint).await?;
        }
    }
    nothing_failed(&running, problems).await
}

#[tokio::test]
async fn a_new_root_fails_no_call_when_both_are_trusted_in_between() -> Result<()> {
    let (old, new) = (Installation::new()?, Installation::new()?);
    let running = Running::start(&old).await?;
    let sidecars = busy(&running, &old, 5).await?;
    let problems = problems(&sidecars);
    let both = || Ok::<_, anyhow::Error>(old.bundle()?.merge(new.bundle()?));
    running.credentials.send_replace(Arc::new(old.operator_trusting(both()?)?));
    for sidecar in &sidecars {
        sidecar.credentials.send_replace(Arc::new(old.sidecar_trusting(NAMESPACE, CLUSTER, both()?)?));
    }
    running.credentials.send_replace(Arc::new(new.operator_trusting(both()?)?));
    for sidecar in &sidecars {
        let fresh = Arc::new(new.sidecar_trusting(NAMESPACE, CLUSTER, new.bundle()?)?);
        let thumbprint = fresh.thumbprint().to_string();
        sidecar.credentials.send_replace(fresh);
        until("the new root's leaf in use", || sidecar.state.borrow().certificate == thumbprint).await?;
    }
    running.credentials.send_replace(Arc::new(new.operator()?));
    let beats = running.beats();
    until("heartbeats without the old root", || running.beats() > beats + 10).await?;
    nothing_failed(&running, problems).await
}

#[tokio::test]
async fn an_open_job_postpones_the_change() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    running.received.stay_connected.store(true, Ordering::Relaxed);
    let sidecars = busy(&running, &installation, 1).await?;
    let (sidecar, session) = (&sidecars[0], running.session().await?);
    let old = sidecar.state.borrow().certificate.clone();
    let fresh = Arc::new(installation.sidecar(NAMESPACE, CLUSTER)?);
    let thumbprint = fresh.thumbprint().to_string();
    sidecar.credentials.send_replace(fresh);
    let beats = running.beats();
    until("heartbeats beside the job", || running.beats() > beats + 3).await?;
    ensure!(sidecar.state.borrow().certificate == old, "the certificate changed under an open job");
    let fence = Fence {
        cluster_uid: session.sidecar().pod.cluster_uid.clone(),
        orchestration_id: "job".into(),
        step_version: 1,
        epoch: 1,
    };
    let done = session.command(fence, Action::Probe(Probe {}), DEADLINE).await?;
    ensure!(matches!(done, Outcome::Done(_)));
    running.received.stay_connected.store(false, Ordering::Relaxed);
    session.finish("job".into()).await;
    drop(session);
    until("the change after the job", || sidecar.state.borrow().certificate == thumbprint).await?;
    ensure!(running.counted.refusals().is_empty(), "{:?}", running.counted.refusals());
    Ok(())
}

#[tokio::test]
async fn a_new_certificate_the_operator_does_not_trust_leaves_the_old_connection_up() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let sidecars = busy(&running, &installation, 1).await?;
    let stranger = Installation::new()?.sidecar_trusting(NAMESPACE, CLUSTER, installation.bundle()?)?;
    sidecars[0].credentials.send_replace(Arc::new(stranger));
    running.refused("BadSignature").await?;
    let beats = running.beats();
    until("heartbeats on the old connection", || running.beats() > beats + 3).await?;
    ensure!(sidecars[0].connected() && running.received.disconnected.load(Ordering::Relaxed) == 0);
    Ok(())
}
