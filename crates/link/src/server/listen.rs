//! The operator's listener: takes connections within the limits and gives each its task. IO.

use super::{
    Leadership, Limits, Meter, Operator, PodProof, Wakeups, admission::Admission, connection, rates::Rates,
    shares::Shares,
};
use crate::{credentials::Current, tls};
use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::watch, time::timeout};
use tokio_rustls::TlsAcceptor;

/// Out of file descriptors, most likely: others close some before the next try.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(50);

pub struct ServerParts<O> {
    pub operator: Arc<O>,
    pub proof: Arc<dyn PodProof>,
    pub meter: Arc<dyn Meter>,
    pub limits: Limits,
    pub credentials: Current,
    pub leadership: watch::Receiver<Leadership>,
}

pub struct Shared<O> {
    pub parts: ServerParts<O>,
    pub acceptor: TlsAcceptor,
    pub admission: Arc<Admission>,
    pub shares: Arc<Shares>,
    pub rates: Rates,
    pub wakeups: Wakeups,
    pub streams: AtomicUsize,
    pub stopping: watch::Sender<bool>,
    numbers: AtomicU64,
}

impl<O> Shared<O> {
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

pub struct Server<O> {
    shared: Arc<Shared<O>>,
}

impl<O: Operator> Server<O> {
    pub fn new(parts: ServerParts<O>) -> Result<Self, rustls::Error> {
        let acceptor = TlsAcceptor::from(tls::server(&parts.credentials)?);
        let admission = Admission::new(parts.limits.clone());
        let rates = Rates::new(parts.limits.calls_burst_per_pod, parts.limits.calls_per_second_per_pod);
        let shared = Shared {
            parts,
            acceptor,
            admission,
            shares: Arc::default(),
            rates,
            wakeups: Wakeups::default(),
            streams: AtomicUsize::new(0),
            stopping: watch::Sender::new(false),
            numbers: AtomicU64::new(1),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// How the operator wakes a sidecar between its heartbeats.
    pub fn wakeups(&self) -> Wakeups {
        self.shared.wakeups.clone()
    }

    /// Serves until `stop`, then lets calls in flight finish.
    pub async fn run(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = stop.as_mut() => break,
                () = self.accept(&listener) => {}
            }
        }
        drop(listener);
        self.shared.stopping.send_replace(true);
        // Each connection holds a receiver until it has ended.
        let _ = timeout(self.shared.parts.limits.drain_time, self.shared.stopping.closed()).await;
    }

    async fn accept(&self, listener: &TcpListener) {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                return tokio::time::sleep(AFTER_FAILED_ACCEPT).await;
            }
        };
        match self.shared.admission.enter(address.ip(), Instant::now()) {
            Ok(ticket) => {
                tokio::spawn(connection::serve(self.shared.clone(), stream, (address, ticket)));
            }
            Err(refusal) => self.shared.parts.meter.refused(&refusal),
        }
    }
}
