//! What one pod and one cluster may have open: more is refused by its reason, and others are not touched.

use crate::{
    certificates::{CLUSTER, Installation, NAMESPACE},
    operator::Running,
    raw::{Channel, beat, client, client_from},
    sidecar::sender,
};
use anyhow::{Result, ensure};
use link::{
    contract::{Hello, OperatorMessage, SidecarMessage, line_client::LineClient, sidecar_message::Message},
    server::Limits,
};
use tonic::{Code, Status, Streaming};

type Client = LineClient<Channel>;

struct Setup {
    installation: Installation,
    running: Running,
}

impl Setup {
    async fn new(limits: Limits) -> Result<Self> {
        let installation = Installation::new()?;
        let running = Running::with_limits(&installation, limits).await?;
        Ok(Self { installation, running })
    }

    /// A connection that has nothing but its certificate.
    async fn connected(&self, cluster: &str) -> Result<Client> {
        client(self.running.address, Some(self.installation.identity(NAMESPACE, cluster)?)).await
    }

    async fn proven(&self, cluster: &str, pod: &str) -> Result<Client> {
        let mut client = self.connected(cluster).await?;
        prove(&mut client, cluster, pod).await?;
        Ok(client)
    }

    /// A sidecar of another cluster is served as ever.
    async fn others_are_served(&self) -> Result<()> {
        self.proven("payments", "payments-0").await.map(drop)
    }
}

async fn prove(client: &mut Client, cluster: &str, pod: &str) -> Result<()> {
    let token = format!("{NAMESPACE}/{cluster}/{pod}");
    client.heartbeat(beat(sender(NAMESPACE, cluster, pod), Some(&token))?).await?;
    Ok(())
}

async fn stream(client: &mut Client, cluster: &str, pod: &str) -> Result<Streaming<OperatorMessage>, Status> {
    let hello = Hello { sender: Some(sender(NAMESPACE, cluster, pod)), highest_epoch: 0 };
    let hello = SidecarMessage { message: Some(Message::Hello(hello)) };
    let said = futures::stream::once(async { hello });
    let said = futures::StreamExt::chain(said, futures::stream::pending());
    Ok(client.orchestrate(said).await?.into_inner())
}

fn is_refused<T>(result: Result<T, Status>) -> bool {
    result.err().is_some_and(|status| status.code() == Code::ResourceExhausted)
}

#[tokio::test]
async fn one_cluster_cannot_hold_more_than_its_share_of_connections() -> Result<()> {
    let setup = Setup::new(Limits { connections_per_cluster: 2, ..Limits::default() }).await?;
    let _held = [setup.proven(CLUSTER, "orders-0").await?, setup.proven(CLUSTER, "orders-1").await?];
    ensure!(setup.proven(CLUSTER, "orders-2").await.is_err());
    setup.running.refused("TooManyFromCluster").await?;
    setup.others_are_served().await
}

#[tokio::test]
async fn a_certificate_without_a_proven_pod_holds_few_connections() -> Result<()> {
    let setup = Setup::new(Limits { unproven_per_cluster: 2, ..Limits::default() }).await?;
    let mut held = Vec::new();
    for pod in ["orders-0", "orders-1", "orders-2"] {
        held.push(setup.proven(CLUSTER, pod).await?);
    }
    let mut idle = [setup.connected(CLUSTER).await?, setup.connected(CLUSTER).await?];
    // The refusal may come while the connection is made, or at its first call.
    ensure!(setup.proven(CLUSTER, "orders-3").await.is_err());
    setup.running.refused("TooManyUnproven").await?;
    setup.others_are_served().await?;
    let [first, _] = &mut idle;
    prove(first, CLUSTER, "orders-4").await?;
    setup.proven(CLUSTER, "orders-3").await.map(drop)
}

#[tokio::test]
async fn a_pod_that_proves_nothing_leaves_room_for_those_of_its_cluster_at_other_addresses() -> Result<()> {
    let setup = Setup::new(Limits { unproven_per_cluster_and_address: 2, ..Limits::default() }).await?;
    let _idle = [setup.connected(CLUSTER).await?, setup.connected(CLUSTER).await?];
    ensure!(setup.proven(CLUSTER, "orders-0").await.is_err());
    setup.running.refused("TooManyUnproven").await?;
    let identity = setup.installation.identity(NAMESPACE, CLUSTER)?;
    let mut neighbour = client_from([127, 0, 0, 2].into(), setup.running.address, identity).await?;
    prove(&mut neighbour, CLUSTER, "orders-1").await?;
    setup.others_are_served().await
}

#[tokio::test]
async fn a_pod_that_dials_again_calls_no_more_than_its_rate_and_its_neighbours_are_served() -> Result<()> {
    let limits = Limits { calls_burst_per_pod: 10, calls_per_second_per_pod: 1, ..Limits::default() };
    let setup = Setup::new(limits).await?;
    let began = std::time::Instant::now();
    let mut served = 0;
    for _ in 0..10 {
        let mut pod = setup.connected(CLUSTER).await?;
        for _ in 0..5 {
            served += u64::from(prove(&mut pod, CLUSTER, "orders-0").await.is_ok());
        }
    }
    // The burst, and one for every second that the machine took.
    let allowed = 10 + began.elapsed().as_secs() + 1;
    ensure!(served <= allowed, "{served} of 50 were served, {allowed} are allowed");
    setup.running.refused("TooManyCallsFromPod").await?;
    setup.proven(CLUSTER, "orders-1").await?;
    setup.others_are_served().await
}

#[tokio::test]
async fn one_pod_cannot_hold_more_than_its_share_of_connections() -> Result<()> {
    let setup = Setup::new(Limits { connections_per_pod: 2, ..Limits::default() }).await?;
    let _held = [setup.proven(CLUSTER, "orders-0").await?, setup.proven(CLUSTER, "orders-0").await?];
    ensure!(setup.proven(CLUSTER, "orders-0").await.is_err());
    setup.running.refused("TooManyFromPod").await?;
    setup.proven(CLUSTER, "orders-1").await?;
    setup.others_are_served().await
}

#[tokio::test]
async fn one_pod_cannot_hold_more_than_its_share_of_streams() -> Result<()> {
    let setup = Setup::new(Limits { streams_per_pod: 1, ..Limits::default() }).await?;
    let mut pod = [setup.proven(CLUSTER, "orders-0").await?, setup.proven(CLUSTER, "orders-0").await?];
    let [first, second] = &mut pod;
    let _open = stream(first, CLUSTER, "orders-0").await?;
    ensure!(is_refused(stream(second, CLUSTER, "orders-0").await));
    ensure!(setup.running.counted.count("TooManyStreamsFromPod") == 1);
    let mut other = setup.proven(CLUSTER, "orders-1").await?;
    stream(&mut other, CLUSTER, "orders-1").await?;
    Ok(())
}

#[tokio::test]
async fn one_cluster_cannot_hold_more_than_its_share_of_streams() -> Result<()> {
    let setup = Setup::new(Limits { streams_per_cluster: 1, ..Limits::default() }).await?;
    let mut first = setup.proven(CLUSTER, "orders-0").await?;
    let _open = stream(&mut first, CLUSTER, "orders-0").await?;
    let mut second = setup.proven(CLUSTER, "orders-1").await?;
    ensure!(is_refused(stream(&mut second, CLUSTER, "orders-1").await));
    ensure!(setup.running.counted.count("TooManyStreamsFromCluster") == 1);
    let mut other = setup.proven("payments", "payments-0").await?;
    stream(&mut other, "payments", "payments-0").await?;
    Ok(())
}

/// A call that stays under way, a stream that does not say hello, as soon as there is room for it.
fn never_ending(client: &Client) -> tokio::task::JoinHandle<()> {
    let mut client = client.clone();
    tokio::spawn(async move {
        while is_refused(client.orchestrate(futures::stream::pending()).await) {
            tokio::task::yield_now().await;
        }
    })
}

/// Heartbeats until one is refused: when the other call has come is not seen from here.
async fn until_refused(client: &mut Client, pod: &str) -> Result<()> {
    for _ in 0..50 {
        let words = beat(sender(NAMESPACE, CLUSTER, pod), Some(&format!("{NAMESPACE}/{CLUSTER}/{pod}")))?;
        if is_refused(client.heartbeat(words).await) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    anyhow::bail!("no heartbeat was refused")
}

#[tokio::test]
async fn one_pod_cannot_have_more_than_its_share_of_calls_under_way() -> Result<()> {
    let setup = Setup::new(Limits { calls_per_pod: 1, ..Limits::default() }).await?;
    let mut pod = setup.proven(CLUSTER, "orders-0").await?;
    let _call = never_ending(&pod);
    until_refused(&mut pod, "orders-0").await?;
    ensure!(setup.running.counted.count("TooManyCallsFromPod") > 0);
    setup.proven(CLUSTER, "orders-1").await.map(drop)
}

#[tokio::test]
async fn one_cluster_cannot_have_more_than_its_share_of_calls_under_way() -> Result<()> {
    let setup = Setup::new(Limits { calls_per_cluster: 1, ..Limits::default() }).await?;
    let pod = setup.proven(CLUSTER, "orders-0").await?;
    let mut other = setup.proven(CLUSTER, "orders-1").await?;
    let _call = never_ending(&pod);
    until_refused(&mut other, "orders-1").await?;
    ensure!(setup.running.counted.count("TooManyCallsFromCluster") > 0);
    setup.others_are_served().await
}
