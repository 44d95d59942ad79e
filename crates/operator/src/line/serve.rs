//! Listens for sidecars, once this replica has an identity to show. IO; one for each process.

use super::Line;
use super::meter::LineMeter;
use super::proof::TokenProof;
use super::report_log::ReportLog;
use super::service::LineService;
use crate::metrics::Metrics;
use crate::stop::Stop;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use link::Current;
use link::server::{Leadership, Limits, Server, ServerParts};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: choose another --line-address")]
    Listen { address: SocketAddr, source: std::io::Error },
}

/// What the line is served with.
pub struct LineSettings {
    pub leadership: watch::Receiver<Leadership>,
    pub heartbeat_interval: Duration,
}

/// Binds at once, so that a busy port stops the start.
pub async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
    let bound = listener.local_addr().map_err(|source| Error::Listen { address, source })?;
    Ok((listener, bound))
}

/// Serves until the stop.
pub async fn serve(
    listener: TcpListener,
    line: Arc<Line>,
    settings: LineSettings,
    shown: (Client, Current, Arc<Metrics>),
    stop: Stop,
) {
    let (client, credentials, metrics) = shown;
    let heard = line.roster.clone();
    metrics.watch_silence(move || heard.longest_silence(Timestamp::now()).unwrap_or_default().as_secs_f64());
    let proof = TokenProof::new(Api::<TokenReview>::all(client), line.scopes.clone(), metrics.clone());
    let service = LineService {
        roster: line.roster.clone(),
        streams: line.streams.clone(),
        log: ReportLog::new(metrics.clone()),
        heartbeat_interval: settings.heartbeat_interval,
    };
    let server = Server::new(ServerParts {
        operator: Arc::new(service),
        proof: Arc::new(proof),
        meter: Arc::new(LineMeter(metrics)),
        limits: Limits::default(),
        credentials,
        leadership: settings.leadership,
    });
    match server {
        Ok(server) => {
            line.streams.call_with(server.wakeups());
            server.run(listener, stop.wished()).await;
        }
        Err(error) => tracing::error!(%error, "the line cannot be served with this identity"),
    }
}
