//! Several replicas of the operator: sidecars find the one that leads, again and again.

use crate::{
    certificates::{CLUSTER, Installation, NAMESPACE},
    operator::{Running, until},
    sidecar::{Connected, Disk},
};
use anyhow::{Result, ensure};
use link::{
    client::{LineState, Times},
    server::{Leadership, Limits},
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn follower(leader: Option<String>) -> Leadership {
    Leadership::Follower { leader }
}

async fn replica(installation: &Installation, leads: Leadership) -> Result<Running> {
    Running::at(ANY_PORT, installation.operator()?, Limits::default(), leads).await
}

fn sidecar(installation: &Installation, replicas: &[&Running], disk: &Disk) -> Result<Connected> {
    let addresses = replicas.iter().map(|replica| replica.address.to_string()).collect();
    Connected::start(addresses, installation.sidecar(NAMESPACE, CLUSTER)?, "orders-0", disk)
}

#[tokio::test]
async fn a_follower_names_the_leader_and_is_not_asked_twice() -> Result<()> {
    let installation = Installation::new()?;
    let leader = replica(&installation, Leadership::Leader { epoch: 3 }).await?;
    let other = replica(&installation, follower(Some(leader.address.to_string()))).await?;
    // Only the follower's address is configured.
    let sidecar = sidecar(&installation, &[&other], &Disk::default())?;
    until("the leader's heartbeat", || leader.beats() == 1).await?;
    until("the leader's reply", || sidecar.state.borrow().epoch == 3).await?;
    ensure!(other.beats() == 0);
    ensure!(other.tokens.asked.load(Ordering::Relaxed) == 0, "a follower has no use for a token");
    Ok(())
}

#[tokio::test]
async fn a_change_of_leader_is_followed_there_and_back() -> Result<()> {
    let installation = Installation::new()?;
    let one = replica(&installation, Leadership::Leader { epoch: 1 }).await?;
    let two = replica(&installation, follower(Some(one.address.to_string()))).await?;
    let sidecar = sidecar(&installation, &[&one, &two], &Disk::default())?;
    until("the first leader's heartbeat", || one.beats() == 1).await?;
    two.leadership.send_replace(Leadership::Leader { epoch: 2 });
    one.leadership.send_replace(follower(Some(two.address.to_string())));
    until("the second leader's heartbeat", || two.beats() == 1).await?;
    one.leadership.send_replace(Leadership::Leader { epoch: 3 });
    two.leadership.send_replace(follower(None));
    until("the first again", || one.beats() == 2).await?;
    until("the leader's reply", || sidecar.state.borrow().epoch == 3).await?;
    Ok(())
}

#[tokio::test]
async fn a_leader_that_dies_is_replaced() -> Result<()> {
    let installation = Installation::new()?;
    let one = replica(&installation, Leadership::Leader { epoch: 1 }).await?;
    let two = replica(&installation, follower(Some(one.address.to_string()))).await?;
    let _sidecar = sidecar(&installation, &[&one, &two], &Disk::default())?;
    until("the first leader's heartbeat", || one.beats() == 1).await?;
    one.stop().await?;
    two.leadership.send_replace(Leadership::Leader { epoch: 2 });
    until("the second leader's heartbeat", || two.beats() == 1).await
}

#[tokio::test]
async fn a_stale_leader_is_left_for_the_newer_one() -> Result<()> {
    let installation = Installation::new()?;
    let disk = Disk::default();
    let newer = replica(&installation, Leadership::Leader { epoch: 8 }).await?;
    {
        let sidecar = sidecar(&installation, &[&newer], &disk)?;
        until("the newer leader's heartbeat", || sidecar.connected()).await?;
    }
    // Cut off from the others, this one still believes that it leads.
    let stale = replica(&installation, Leadership::Leader { epoch: 7 }).await?;
    let sidecar = sidecar(&installation, &[&stale, &newer], &disk)?;
    until("the newer leader's heartbeat", || newer.beats() == 2).await?;
    until("the leader's reply", || sidecar.state.borrow().epoch == 8).await?;
    Ok(())
}

#[tokio::test]
async fn a_lost_leadership_ends_the_jobs_under_it() -> Result<()> {
    let installation = Installation::new()?;
    let one = replica(&installation, Leadership::Leader { epoch: 1 }).await?;
    one.received.stay_connected.store(true, Ordering::Relaxed);
    let sidecar = sidecar(&installation, &[&one], &Disk::default())?;
    let session = one.session().await?;
    until("the stream", || sidecar.state.borrow().streaming).await?;
    one.leadership.send_replace(follower(None));
    until("the end of the stream", || !sidecar.state.borrow().streaming).await?;
    drop(session);
    Ok(())
}

#[tokio::test]
async fn while_nobody_leads_a_sidecar_asks_as_often_at_the_end_as_at_the_beginning() -> Result<()> {
    let installation = Installation::new()?;
    let other = replica(&installation, follower(None)).await?;
    let sidecar = sidecar(&installation, &[&other], &Disk::default())?;
    let mut state = sidecar.state.clone();
    let mut pauses = Vec::new();
    // Every attempt ends with a word on why there is no line.
    for _ in 0..12 {
        let before = Instant::now();
        state.changed().await?;
        pauses.push(before.elapsed());
    }
    // Half a second by chance, and more on a busy machine; with a back-off that grows none of these could be below two.
    ensure!(pauses[6..].iter().any(|pause| *pause < Duration::from_secs(2)), "{pauses:?}");
    other.leadership.send_replace(Leadership::Leader { epoch: 2 });
    until("the leader's heartbeat", || other.beats() == 1).await
}

/// An address where connections are neither taken nor refused, as of a pod that is gone.
async fn nobody_there() -> Result<(SocketAddr, Vec<TcpStream>, TcpListener)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(ANY_PORT)?;
    let listener = socket.listen(1)?;
    let address = listener.local_addr()?;
    let mut waiting = Vec::new();
    // Until the queue of those that wait to be taken is full.
    while let Ok(stream) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        waiting.push(stream?);
    }
    Ok((address, waiting, listener))
}

#[tokio::test]
async fn a_leader_that_was_named_and_is_gone_is_given_up_before_the_limit_for_connecting() -> Result<()> {
    let installation = Installation::new()?;
    let (gone, _waiting, _listener) = nobody_there().await?;
    let other = replica(&installation, follower(Some(gone.to_string()))).await?;
    let sidecar = sidecar(&installation, &[&other], &Disk::default())?;
    let mut state = sidecar.state.clone();
    // The follower's word, then what became of it.
    let named =
        state.wait_for(|state| state.problem.as_ref().is_some_and(|problem| problem.contains("not lead"))).await;
    drop(named?);
    let began = Instant::now();
    let failed =
        |state: &LineState| state.problem.as_ref().is_some_and(|problem| problem.contains("could not connect"));
    drop(state.wait_for(failed).await?);
    ensure!(began.elapsed() < Times::default().connect, "it took {:?}", began.elapsed());
    other.leadership.send_replace(Leadership::Leader { epoch: 2 });
    until("the leader's heartbeat", || other.beats() == 1).await
}
