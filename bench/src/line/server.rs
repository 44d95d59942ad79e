//! The operator's process of the measurement: the real server around logic that only answers. IO.

use crate::child::{Counts, orders};
use anyhow::Result;
use futures::future::BoxFuture;
use link::{
    contract::{HeartbeatRequest, ReportRequest},
    server::{
        Attention, Leadership, Limits, Meter, Operator, PodProof, ProofError, ProvenPod, Refusal, Server, ServerParts,
        Session, Sidecar,
    },
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch};

struct Answering;

impl Operator for Answering {
    async fn heartbeat(&self, _: &Sidecar, _: HeartbeatRequest) -> Attention {
        Attention { next_heartbeat: Duration::from_secs(60), stay_connected: false }
    }

    async fn report(&self, _: &Sidecar, _: ReportRequest) {}

    async fn orchestrate(&self, _: Session) {}

    fn disconnected(&self, _: &Sidecar) {}
}

/// Tokens are `namespace/cluster/pod`; a real one is checked by the Kubernetes API.
struct Tokens;

impl PodProof for Tokens {
    fn prove<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<ProvenPod, ProofError>> {
        Box::pin(async move {
            let mut parts = token.split('/').map(str::to_owned);
            let (Some(namespace), Some(cluster), Some(pod)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(ProofError::Refused("not a token".into()));
            };
            let (cluster_uid, pod_uid) = (format!("uid-{cluster}"), format!("uid-{pod}"));
            Ok(ProvenPod { namespace, cluster, cluster_uid, pod, pod_uid })
        })
    }
}

#[derive(Default)]
struct Counting(Mutex<Counts>);

impl Counting {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

impl Meter for Counting {
    fn refused(&self, refusal: &Refusal) {
        *self.lock().refusals.entry(refusal.reason().to_owned()).or_default() += 1;
    }

    fn connections(&self, open: usize) {
        self.lock().open = open;
    }

    fn streams(&self, _: usize) {}

    fn heartbeat(&self, served: Duration, round_trip: Option<Duration>) {
        let mut counts = self.lock();
        counts.served.push(microseconds(served));
        counts.round_trips.extend(round_trip.map(microseconds));
    }
}

pub async fn serve() -> Result<()> {
    let (orders, mut questions) = orders()?;
    let listener = TcpListener::bind(&orders.address).await?;
    let counting = Arc::new(Counting::default());
    let credentials = watch::Sender::new(Arc::new(orders.files.credentials()?));
    let leadership = watch::Sender::new(Leadership::Leader { epoch: 1 });
    // All come from one address here.
    let many = 1_000_000;
    let mut limits =
        Limits { connections_per_address: many, unproven_per_cluster_and_address: many, ..Limits::default() };
    if !orders.per_address {
        limits = Limits { handshakes_per_address: many, handshakes_burst_per_address: u32::MAX, ..limits };
    }
    let server = Server::new(ServerParts {
        operator: Arc::new(Answering),
        proof: Arc::new(Tokens),
        meter: counting.clone(),
        limits,
        credentials: credentials.subscribe(),
        leadership: leadership.subscribe(),
    })?;
    println!("{}", listener.local_addr()?);
    let answering = async {
        while questions.recv().await.is_some() {
            let open = counting.lock().open;
            let counts = std::mem::replace(&mut *counting.lock(), Counts { open, ..Counts::default() });
            println!("{}", serde_json::to_string(&counts).unwrap_or_default());
        }
    };
    server.run(listener, answering).await;
    Ok(())
}
