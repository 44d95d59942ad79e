//! The Workload API for one workload on a Unix socket: sends all it has at once, all again on each change, and refuses calls
//! without the guard. Who calls is known by the socket alone, so one agent serves one workload.

use crate::contract::{
    X509svid, X509svidRequest, X509svidResponse,
    spiffe_workload_api_server::{SpiffeWorkloadApi, SpiffeWorkloadApiServer},
};
use crate::endpoint::Endpoint;
use anyhow::Result;
use futures::stream::{self, BoxStream, StreamExt};
use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use tonic::{Request, Response, Status, codegen::Service};

/// What the workload is told.
type Verdict = Result<X509svidResponse, Status>;

pub struct Agent {
    path: PathBuf,
    verdict: watch::Sender<Verdict>,
    calls: Arc<AtomicUsize>,
    serving: Option<AbortHandle>,
}

impl Agent {
    /// An agent that knows no identity yet.
    pub fn listen(path: &Path) -> Result<Self> {
        let verdict = watch::Sender::new(Err(no_identity()));
        let mut agent = Self { path: path.to_owned(), verdict, calls: Arc::default(), serving: None };
        agent.start()?;
        Ok(agent)
    }

    /// Listens, again if it had stopped.
    pub fn start(&mut self) -> Result<()> {
        self.stop();
        let listener = UnixListener::bind(&self.path)?;
        let api = Api { verdict: self.verdict.subscribe(), calls: self.calls.clone() };
        self.serving = Some(tokio::spawn(serve(listener, api)).abort_handle());
        Ok(())
    }

    /// Goes away with all its connections and its socket.
    pub fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
        let _ = std::fs::remove_file(&self.path);
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.path.clone())
    }

    /// How often it was called.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    pub fn give(&self, svids: Vec<X509svid>, federated: HashMap<String, Vec<u8>>) {
        self.say(Ok(X509svidResponse { svids, crl: Vec::new(), federated_bundles: federated }));
    }

    /// Takes everything back.
    pub fn deny(&self) {
        self.say(Err(no_identity()));
    }

    /// Any answer, also one that no good server gives.
    pub fn say(&self, verdict: Verdict) {
        self.verdict.send_modify(|now| *now = verdict);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop();
    }
}

fn no_identity() -> Status {
    Status::permission_denied("no identity issued")
}

#[derive(Clone)]
struct Api {
    verdict: watch::Receiver<Verdict>,
    calls: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl SpiffeWorkloadApi for Api {
    type FetchX509SVIDStream = BoxStream<'static, Verdict>;

    async fn fetch_x509svid(
        &self,
        request: Request<X509svidRequest>,
    ) -> Result<Response<Self::FetchX509SVIDStream>, Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if request.metadata().get("workload.spiffe.io").is_none_or(|value| value != "true") {
            return Err(Status::invalid_argument("security header missing from request"));
        }
        Ok(Response::new(verdicts(self.verdict.clone())))
    }
}

/// The verdict now, and again whenever it changes; a refusal is the last.
fn verdicts(mut verdict: watch::Receiver<Verdict>) -> BoxStream<'static, Verdict> {
    verdict.mark_changed();
    let following = stream::unfold(Some(verdict), |verdict| async move {
        let mut verdict = verdict?;
        verdict.changed().await.ok()?;
        let now = verdict.borrow_and_update().clone();
        let more = now.is_ok().then_some(verdict);
        Some((now, more))
    });
    following.boxed()
}

async fn serve(listener: UnixListener, api: Api) {
    // Its connections end with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer(stream, api.clone()));
    }
}

async fn answer(stream: UnixStream, api: Api) {
    let service = service_fn(move |request| SpiffeWorkloadApiServer::new(api.clone()).call(request));
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}
