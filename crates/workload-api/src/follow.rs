//! One stream of the Workload API, from the connection to its end. IO.

use crate::{
    answer::AnswerError,
    contract::{X509svidRequest, X509svidResponse, spiffe_workload_api_client::SpiffeWorkloadApiClient},
    endpoint::Endpoint,
};
use http::Uri;
use hyper::{
    client::conn::http2,
    rt::{Read, Write},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use link::channel::Channel;
use std::{io, time::Duration};
use tokio::{
    net::{TcpStream, UnixStream},
    task::JoinHandle,
    time::timeout,
};
use tonic::{Code, Request, Status, Streaming, metadata::MetadataValue};

/// Every call carries it: something that was tricked into calling a socket does not know it.
const GUARD: (&str, &str) = ("workload.spiffe.io", "true");
/// The operator is given the bundle of every namespace that has a cluster.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    #[error("could not reach the Workload API at {endpoint}")]
    Connect { endpoint: Endpoint, source: io::Error },
    #[error("{endpoint} does not speak HTTP/2")]
    Http { endpoint: Endpoint, source: hyper::Error },
    #[error("the Workload API at {endpoint} did not answer within {limit:?}")]
    Silent { endpoint: Endpoint, limit: Duration },
    #[error("the Workload API gives this workload no identity: {0}: register one for it")]
    Denied(String),
    #[error("the Workload API refused the call: {0}: {1}")]
    Refused(Code, String),
    #[error("the Workload API ended the stream")]
    Ended,
    #[error("no new identity came in good time")]
    Stale,
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

impl FollowError {
    /// Whether the same server would say the same again: by the specification such a call is not repeated.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Refused(Code::InvalidArgument | Code::Unimplemented, _))
    }
}

impl From<Status> for FollowError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::PermissionDenied => Self::Denied(status.message().to_owned()),
            code => Self::Refused(code, status.message().to_owned()),
        }
    }
}

/// An open stream; the connection goes with it.
pub struct Followed {
    answers: Streaming<X509svidResponse>,
    connection: JoinHandle<()>,
}

impl Followed {
    /// Connects and calls. The first answer is still to come.
    pub async fn open(endpoint: &Endpoint, limit: Duration) -> Result<Self, FollowError> {
        let opening = timeout(limit, open(endpoint)).await;
        opening.map_err(|_| FollowError::Silent { endpoint: endpoint.clone(), limit })?
    }

    pub async fn next(&mut self) -> Result<X509svidResponse, FollowError> {
        self.answers.message().await?.ok_or(FollowError::Ended)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

async fn open(endpoint: &Endpoint) -> Result<Followed, FollowError> {
    let unreachable = |source| FollowError::Connect { endpoint: endpoint.clone(), source };
    match endpoint {
        Endpoint::Unix(path) => call(endpoint, UnixStream::connect(path).await.map_err(unreachable)?).await,
        Endpoint::Tcp(address) => call(endpoint, TcpStream::connect(address).await.map_err(unreachable)?).await,
    }
}

async fn call<S>(endpoint: &Endpoint, stream: S) -> Result<Followed, FollowError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (channel, connection) = speak_http(TokioIo::new(stream))
        .await
        .map_err(|source| FollowError::Http { endpoint: endpoint.clone(), source })?;
    let client = SpiffeWorkloadApiClient::with_origin(channel, Uri::from_static("http://localhost"));
    let mut request = Request::new(X509svidRequest {});
    request.metadata_mut().insert(GUARD.0, MetadataValue::from_static(GUARD.1));
    let called = client.max_decoding_message_size(LARGEST_ANSWER).fetch_x509svid(request).await;
    match called {
        Ok(answers) => Ok(Followed { answers: answers.into_inner(), connection }),
        Err(status) => {
            connection.abort();
            Err(status.into())
        }
    }
}

/// No pings: the servers at the other end take frequent ones for abuse, and a local socket closes with its process.
async fn speak_http<S>(stream: S) -> Result<(Channel, JoinHandle<()>), hyper::Error>
where
    S: Read + Write + Unpin + Send + 'static,
{
    let (sender, connection) = http2::Builder::new(TokioExecutor::new()).handshake(stream).await?;
    let connection = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the Workload API broke");
        }
    });
    Ok((Channel { sender }, connection))
}
