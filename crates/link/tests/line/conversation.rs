//! The ordinary life of a line: heartbeats, reports, a wakeup, a job.

use crate::{
    certificates::{CLUSTER, Installation, NAMESPACE},
    operator::{DEADLINE, Running, until},
    sidecar::{Connected, Disk, LARGE, sender},
};
use anyhow::{Result, ensure};
use link::{
    client::Notice,
    contract::{
        DiskFilling, Fence, HeartbeatCause, Meet, Probe, ReadView, RefusedReason, answer::Outcome, command::Action,
        report_request::Event,
    },
    server::SessionError,
};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::timeout;

async fn pair() -> Result<(Running, Connected)> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let credentials = installation.sidecar(NAMESPACE, CLUSTER)?;
    let sidecar = Connected::start(vec![running.address.to_string()], credentials, "orders-0", &Disk::default())?;
    until("the first heartbeat", || sidecar.connected()).await?;
    Ok((running, sidecar))
}

fn fence(cluster_uid: String, step_version: u64) -> Fence {
    Fence { cluster_uid, orchestration_id: "job".into(), step_version, epoch: 1 }
}

#[tokio::test]
async fn a_heartbeat_says_who_speaks_and_the_token_is_checked_once_for_a_connection() -> Result<()> {
    let (running, sidecar) = pair().await?;
    for beats in 2..5 {
        sidecar.notices.send(Notice::Changed).await?;
        until("another heartbeat", || running.beats() == beats).await?;
    }
    ensure!(running.tokens.asked.load(Ordering::Relaxed) == 1);
    let beats = running.received.beats.lock().unwrap();
    let (proven, first) = &beats[0];
    ensure!(
        proven.pod.pod == "orders-0"
            && proven.certificate.id.to_string() == "spiffe://team-a/valkeycluster/orders/sidecar"
    );
    ensure!(first.cause() == HeartbeatCause::Connected && beats[1].1.cause() == HeartbeatCause::Changed);
    ensure!(beats[1].1.previous_round_trip_microseconds > 0);
    Ok(())
}

#[tokio::test]
async fn heartbeats_come_at_the_pace_the_operator_asks_for() -> Result<()> {
    let (running, sidecar) = pair().await?;
    *running.received.next.lock().unwrap() = Duration::from_millis(300);
    sidecar.notices.send(Notice::Changed).await?;
    until("five heartbeats by the clock", || running.beats() >= 7).await
}

#[tokio::test]
async fn an_event_is_reported_at_once_and_one_without_a_connection_when_there_is_one() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let credentials = installation.sidecar(NAMESPACE, CLUSTER)?;
    let sidecar = Connected::start(vec![running.address.to_string()], credentials, "orders-0", &Disk::default())?;
    let event = || Notice::Report(Event::DiskFilling(DiskFilling { size_bytes: 10, available_bytes: 1 }));
    // Before the line can be up: the first attempt waits some milliseconds.
    sidecar.notices.send(event()).await?;
    until("the kept report", || running.received.reports.lock().unwrap().len() == 1).await?;
    sidecar.notices.send(event()).await?;
    until("the next report", || running.received.reports.lock().unwrap().len() == 2).await?;
    let reports = running.received.reports.lock().unwrap();
    ensure!(reports[0].event_id != reports[1].event_id && reports[0].at_unix_milliseconds > 0);
    Ok(())
}

#[tokio::test]
async fn a_woken_sidecar_sends_its_heartbeat_immediately() -> Result<()> {
    let (running, _sidecar) = pair().await?;
    for beats in 2..5 {
        ensure!(running.wakeups.wake("uid-of-orders-0"), "it is not connected");
        until("the heartbeat after the wakeup", || running.beats() >= beats).await?;
    }
    ensure!(!running.wakeups.wake("uid-of-orders-9"));
    Ok(())
}

#[tokio::test]
async fn a_sidecar_told_to_stay_carries_out_commands_until_the_job_is_done() -> Result<()> {
    let (running, sidecar) = pair().await?;
    running.received.stay_connected.store(true, Ordering::Relaxed);
    running.wakeups.wake("uid-of-orders-0");
    let session = running.session().await?;
    let uid = session.sidecar().pod.cluster_uid.clone();
    let Outcome::Done(done) = session.command(fence(uid, 1), Action::Probe(Probe {}), DEADLINE).await? else {
        anyhow::bail!("not done");
    };
    ensure!(done.changed && done.did == "noted it");
    ensure!(sidecar.state.borrow().streaming && sidecar.node.executed.lock().unwrap().len() == 1);
    Ok(())
}

#[tokio::test]
async fn an_answer_of_nearly_a_mib_comes_through_the_small_window() -> Result<()> {
    let (running, _sidecar) = pair().await?;
    running.received.stay_connected.store(true, Ordering::Relaxed);
    running.wakeups.wake("uid-of-orders-0");
    let session = running.session().await?;
    let uid = session.sidecar().pod.cluster_uid.clone();
    let outcome = session.command(fence(uid, 1), Action::ReadView(ReadView {}), DEADLINE).await?;
    ensure!(matches!(outcome, Outcome::Done(done) if done.found.len() == LARGE));
    Ok(())
}

#[tokio::test]
async fn a_command_ends_at_its_deadline_and_others_go_on_meanwhile() -> Result<()> {
    let (running, _sidecar) = pair().await?;
    running.received.stay_connected.store(true, Ordering::Relaxed);
    running.wakeups.wake("uid-of-orders-0");
    let session = running.session().await?;
    let uid = || sender(NAMESPACE, CLUSTER, "orders-0").cluster_uid;
    let hung = session.command(fence(uid(), 1), Action::Meet(Meet::default()), Duration::from_millis(700));
    let quick = session.command(fence(uid(), 1), Action::Probe(Probe {}), DEADLINE);
    let (hung, quick) = timeout(DEADLINE, futures::future::join(hung, quick)).await?;
    ensure!(matches!(quick?, Outcome::Done(_)));
    let Outcome::Failed(failed) = hung? else { anyhow::bail!("it cannot have ended") };
    ensure!(failed.deadline_passed, "{failed:?}");
    Ok(())
}

#[tokio::test]
async fn a_command_for_another_cluster_is_refused_by_the_sidecar() -> Result<()> {
    let (running, _sidecar) = pair().await?;
    running.received.stay_connected.store(true, Ordering::Relaxed);
    running.wakeups.wake("uid-of-orders-0");
    let session = running.session().await?;
    let Outcome::Refused(refused) =
        session.command(fence("other".into(), 1), Action::Probe(Probe {}), DEADLINE).await?
    else {
        anyhow::bail!("it was obeyed");
    };
    ensure!(refused.reason() == RefusedReason::OtherCluster);
    Ok(())
}

#[tokio::test]
async fn a_session_whose_sidecar_is_gone_says_so() -> Result<()> {
    let (running, sidecar) = pair().await?;
    running.received.stay_connected.store(true, Ordering::Relaxed);
    running.wakeups.wake("uid-of-orders-0");
    let session = running.session().await?;
    let uid = session.sidecar().pod.cluster_uid.clone();
    let lost = session.command(fence(uid, 1), Action::Meet(Meet::default()), Duration::from_secs(60));
    drop(sidecar);
    let lost = timeout(DEADLINE, lost).await?;
    ensure!(matches!(lost, Err(SessionError::Lost)), "{lost:?}");
    until("the operator's notice of it", || running.received.disconnected.load(Ordering::Relaxed) == 1).await
}
