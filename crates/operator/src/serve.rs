//! The HTTP endpoint for probes and Prometheus: GET /healthz, /readyz, /metrics. Runs beside everything else.

use crate::health::Health;
use crate::metrics::Metrics;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A client that sends no complete request head within this time is dropped.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// Probes and Prometheus need a few; more would take descriptors from the line and the API server's connections.
const AT_ONCE: usize = 64;
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: choose another --listen-address")]
pub struct Error {
    address: SocketAddr,
    source: std::io::Error,
}

#[derive(Clone)]
pub struct Pages {
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
}

/// Binds at once, so that a busy port stops the start; then serves in the background.
pub async fn start(address: SocketAddr, pages: Pages) -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind(address).await.map_err(|source| Error { address, source })?;
    let bound = listener.local_addr().map_err(|source| Error { address, source })?;
    tokio::spawn(accept(listener, pages));
    Ok(bound)
}

async fn accept(listener: TcpListener, pages: Pages) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let pages = pages.clone();
                tokio::spawn(async move {
                    connection(stream, pages).await;
                    drop(place);
                });
            }
            // Out of file descriptors, most likely: give others time to close theirs.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(stream: TcpStream, pages: Pages) {
    let service = service_fn(move |request| {
        let response = respond(&request, &pages);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_DEADLINE).keep_alive(false);
    // A probe that hangs up early is no event.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn respond(request: &Request<Incoming>, pages: &Pages) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return page(StatusCode::METHOD_NOT_ALLOWED, "only GET".to_owned(), "text/plain");
    }
    match request.uri().path() {
        "/healthz" => page(StatusCode::OK, "ok".to_owned(), "text/plain"),
        "/readyz" => match pages.health.ready() {
            Ok(word) => page(StatusCode::OK, word.to_owned(), "text/plain"),
            Err(why) => page(StatusCode::SERVICE_UNAVAILABLE, why, "text/plain"),
        },
        "/metrics" => page(StatusCode::OK, pages.metrics.print(), METRICS_TYPE),
        _ => page(StatusCode::NOT_FOUND, "try /healthz, /readyz or /metrics".to_owned(), "text/plain"),
    }
}

fn page(status: StatusCode, text: String, content_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    response
}
