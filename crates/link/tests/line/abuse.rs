//! Garbage, slowness and floods: the operator's end lives on and serves the others.

use crate::{
    certificates::{CLUSTER, Installation, NAMESPACE},
    operator::{DEADLINE, Running, until},
    raw::{attempt, beat, client, code, start, tls},
    sidecar::sender,
};
use anyhow::{Context, Result, ensure};
use link::server::{Leadership, Limits};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tonic::Code;

const TOKEN: &str = "team-a/orders/orders-0";

fn hasty() -> Limits {
    Limits {
        handshake_time: Duration::from_millis(500),
        first_call_time: Duration::from_millis(500),
        call_time: Duration::from_millis(500),
        ..Limits::default()
    }
}

/// The peer closes the connection, in whatever way.
async fn closed(stream: &mut (impl AsyncReadExt + Unpin)) -> Result<()> {
    let mut buffer = [0; 4096];
    let read = async { while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {} };
    timeout(DEADLINE, read).await.context("the connection stayed open")
}

async fn from(last: u8, to: SocketAddr) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
    Ok(socket.connect(to).await?)
}

#[tokio::test]
async fn garbage_of_all_sizes_is_refused() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::with_limits(&installation, hasty()).await?;
    let mut random = fastrand::Rng::with_seed(7);
    for size in [1, 5, 100, 5_000, 200_000] {
        let mut stream = TcpStream::connect(running.address).await?;
        let garbage: Vec<u8> = (0..size).map(|_| random.u8(..)).collect();
        // The server may close before all of it is written.
        let _ = stream.write_all(&garbage).await;
        closed(&mut stream).await?;
    }
    attempt(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    until("all places to be free", || running.counted.open.load(Ordering::Relaxed) <= 1).await
}

#[tokio::test]
async fn garbage_inside_tls_costs_only_the_connection() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut stream = tls(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    stream.write_all(&[0xff; 2000]).await?;
    closed(&mut stream).await?;
    attempt(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    Ok(())
}

#[tokio::test]
async fn a_client_that_never_shakes_hands_is_closed() -> Result<()> {
    let running = Running::with_limits(&Installation::new()?, hasty()).await?;
    let mut stream = TcpStream::connect(running.address).await?;
    // The start of a handshake record, and then nothing.
    stream.write_all(&[22, 3, 1, 2, 0, 1]).await?;
    closed(&mut stream).await?;
    running.refused("HandshakeTime").await
}

#[tokio::test]
async fn a_client_that_dribbles_its_preface_is_closed() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::with_limits(&installation, hasty()).await?;
    let mut stream = tls(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    stream.write_all(b"PRI * HT").await?;
    closed(&mut stream).await?;
    running.refused("NoFirstCall").await
}

#[tokio::test]
async fn a_call_that_is_never_finished_ends_at_its_time() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::with_limits(&installation, hasty()).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), Some(TOKEN))?).await?;
    // A stream that is opened and never says hello.
    let silent = client.orchestrate(futures::stream::pending()).await;
    ensure!(silent.err().map(|status| status.code()) == Some(Code::DeadlineExceeded));
    running.refused("CallTime").await
}

#[tokio::test]
async fn before_its_pod_is_proven_no_more_than_a_few_kib_of_a_call_are_taken() -> Result<()> {
    let installation = Installation::new()?;
    let limits = Limits { call_time: Duration::from_secs(1), ..Limits::default() };
    let running = Running::with_limits(&installation, limits).await?;
    running.tokens.hanging.store(true, Ordering::Relaxed);
    for method in ["Orchestrate", "Heartbeat"] {
        let identity = installation.identity(NAMESPACE, CLUSTER)?;
        let mut large = start(running.address, identity, method, TOKEN).await?;
        large.refused(Code::Unavailable).await?;
        ensure!(large.taken() <= 16 * 1024, "{method}: {} bytes were taken", large.taken());
    }
    running.refused("PodProofUnavailable").await
}

#[tokio::test]
async fn without_a_token_a_call_is_refused_before_its_message_has_come() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    let silent = client.orchestrate(futures::stream::pending()).await;
    ensure!(silent.err().map(|status| status.code()) == Some(Code::Unauthenticated));
    ensure!(running.counted.count("NoPodProof") == 1 && running.counted.count("CallTime") == 0);
    Ok(())
}

#[tokio::test]
async fn until_its_pod_is_proven_a_connection_has_one_call_at_a_time() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::with_limits(&installation, hasty()).await?;
    running.tokens.hanging.store(true, Ordering::Relaxed);
    let client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    let calls =
        (0..8).map(|_| {
            let mut client = client.clone();
            async move {
                client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), Some(TOKEN))?).await.map_err(Into::into)
            }
        });
    let answers: Vec<Result<_>> = futures::future::join_all(calls).await;
    ensure!(answers.iter().all(Result::is_err) && running.tokens.asked.load(Ordering::Relaxed) == 1);
    ensure!(running.counted.count("ProofUnderWay") == 7, "{:?}", running.counted.refusals());
    Ok(())
}

#[tokio::test]
async fn a_proven_pod_opens_a_stream_with_a_hello_of_a_few_kib_at_most() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut large = start(running.address, installation.identity(NAMESPACE, CLUSTER)?, "Orchestrate", TOKEN).await?;
    large.refused(Code::OutOfRange).await?;
    ensure!(large.taken() <= 32 * 1024, "{} bytes were taken", large.taken());
    running.refused("OversizedMessage").await
}

#[tokio::test]
async fn a_replica_that_does_not_lead_says_so_without_reading() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    running.leadership.send_replace(Leadership::Follower { leader: Some("elsewhere:1".into()) });
    let mut large = start(running.address, installation.identity(NAMESPACE, CLUSTER)?, "Heartbeat", "none").await?;
    large.refused(Code::Ok).await?;
    ensure!(large.taken() <= 16 * 1024, "{} bytes were taken", large.taken());
    ensure!(running.tokens.asked.load(Ordering::Relaxed) == 0 && running.beats() == 0);
    Ok(())
}

#[tokio::test]
async fn a_connection_that_calls_without_end_is_slowed_to_its_rate() -> Result<()> {
    let installation = Installation::new()?;
    let limits = Limits { calls_burst: 10, calls_per_second: 1, ..Limits::default() };
    let running = Running::with_limits(&installation, limits).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    let (began, mut refused) = (Instant::now(), 0);
    for _ in 0..50 {
        let pod = sender(NAMESPACE, CLUSTER, "orders-0");
        let result = client.heartbeat(beat(pod, Some("team-a/orders/orders-0"))?).await;
        refused += usize::from(code(&result) == Some(Code::ResourceExhausted));
    }
    // The burst, and one for every second that the machine took.
    let allowed = 10 + usize::try_from(began.elapsed().as_secs())? + 1;
    ensure!(refused > 0 && 50 - refused <= allowed, "{refused} of 50 were refused, {allowed} are allowed");
    ensure!(running.counted.count("TooManyCalls") == refused);
    Ok(())
}

#[tokio::test]
async fn a_flood_of_connections_from_one_address_starves_nobody_else() -> Result<()> {
    let installation = Installation::new()?;
    let limits = Limits { handshakes_per_address: 20, ..Limits::default() };
    let running = Running::with_limits(&installation, limits).await?;
    let mut flood = Vec::new();
    for _ in 0..500 {
        flood.push(from(2, running.address).await?);
    }
    // It is silent: its own older ones make room for each that comes.
    until("the flood to be closed", || running.counted.count("Displaced") >= 400).await?;
    for _ in 0..5 {
        attempt(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    }
    ensure!(running.counted.count("Displaced") == 480);
    Ok(())
}

/// Two dozen addresses that take every place for handshakes and leave it at this first word.
async fn filled(running: &Running, first_word: &[u8]) -> Result<Vec<TcpStream>> {
    let mut flood = Vec::new();
    for _ in 0..5 {
        for last in 2..26 {
            let mut stream = from(last, running.address).await?;
            stream.write_all(first_word).await?;
            flood.push(stream);
        }
    }
    Ok(flood)
}

async fn sidecars_get_through(first_word: &[u8]) -> Result<()> {
    let installation = Installation::new()?;
    let (handshake_time, first_byte_time) = (Duration::from_secs(60), Duration::from_secs(60));
    let few = Limits { handshakes: 100, handshakes_per_address: 5, ..Limits::default() };
    let running = Running::with_limits(&installation, Limits { handshake_time, first_byte_time, ..few }).await?;
    let _flood = filled(&running, first_word).await?;
    for _ in 0..20 {
        attempt(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    }
    running.refused("Displaced").await
}

#[tokio::test]
async fn silent_connections_of_two_dozen_addresses_make_room_for_sidecars() -> Result<()> {
    sidecars_get_through(&[]).await
}

#[tokio::test]
async fn handshakes_of_two_dozen_addresses_that_stop_after_a_word_make_room_for_sidecars() -> Result<()> {
    sidecars_get_through(&[22, 3, 1, 2, 0, 1]).await
}

#[tokio::test]
async fn silent_connections_of_its_own_address_make_room_for_a_sidecar() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut flood = Vec::new();
    for _ in 0..60 {
        flood.push(TcpStream::connect(running.address).await?);
    }
    for _ in 0..5 {
        attempt(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    }
    running.refused("Displaced").await
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_long_before_a_handshake_is_given_up() -> Result<()> {
    let installation = Installation::new()?;
    let limits = Limits { handshake_time: DEADLINE, first_byte_time: Duration::from_millis(300), ..Limits::default() };
    let running = Running::with_limits(&installation, limits).await?;
    closed(&mut TcpStream::connect(running.address).await?).await?;
    running.refused("FirstByteTime").await
}

#[tokio::test]
async fn one_address_cannot_hold_more_than_its_share_of_connections() -> Result<()> {
    let installation = Installation::new()?;
    let limits = Limits { connections_per_address: 3, ..Limits::default() };
    let running = Running::with_limits(&installation, limits).await?;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?);
    }
    ensure!(attempt(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await.is_err());
    running.refused("TooManyFromAddress").await
}

#[tokio::test]
async fn a_silent_connection_is_closed_in_the_end() -> Result<()> {
    let installation = Installation::new()?;
    let limits = Limits { idle_time: Duration::from_millis(700), ..hasty() };
    let running = Running::with_limits(&installation, limits).await?;
    let mut client = client(running.address, Some(installation.identity(NAMESPACE, CLUSTER)?)).await?;
    client.heartbeat(beat(sender(NAMESPACE, CLUSTER, "orders-0"), Some("team-a/orders/orders-0"))?).await?;
    until("the end of the connection", || running.received.disconnected.load(Ordering::Relaxed) == 1).await
}
