//! One connection to one server. IO; every operation is bounded by the deadline given at `open`, so a stopped server
//! costs its caller that time and no more.

use crate::{
    address::Address,
    refusal::Refusal,
    reply::{self, MAXIMUM_BYTES, ProtocolError, Reply},
};
use std::{future::Future, io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::{Instant, timeout_at},
};

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("could not connect to {address}")]
    Connect { address: String, source: io::Error },
    #[error("connecting to {address} took longer than {deadline:?}")]
    ConnectDeadline { address: String, deadline: Duration },
    #[error("{address} took the connection and gave no answer within {deadline:?}")]
    AnswerDeadline { address: String, deadline: Duration },
    #[error("{address} closed the connection without an answer")]
    Closed { address: String },
    #[error("the connection to {address} broke")]
    Broken { address: String, source: io::Error },
    #[error("{address} does not speak the Valkey protocol")]
    Protocol { address: String, source: ProtocolError },
    #[error("{0}")]
    Refused(Refusal),
    #[error("{command} answered in a form that is not known")]
    Unexpected { command: &'static str },
}

impl CallError {
    /// Nobody listens: the process is not there, as opposed to there and silent.
    pub fn nobody_listens(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(self, CallError::Connect { source, .. } if matches!(source.kind(), ConnectionRefused | NotFound))
    }

    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            CallError::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

pub struct Connection {
    address: String,
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    deadline: Duration,
    until: Instant,
}

impl Connection {
    /// Connects; `deadline` bounds the connect and all calls together, counted from now, until `renew`.
    pub async fn open(address: &Address, deadline: Duration) -> Result<Self, CallError> {
        let until = Instant::now() + deadline;
        let name = address.to_string();
        let connected: Result<Box<dyn Stream>, CallError> = match address {
            Address::Unix(path) => connect(&name, deadline, until, UnixStream::connect(path)).await,
            Address::Tcp(socket) => connect(&name, deadline, until, at_once(*socket)).await,
        };
        Ok(Self { address: name, stream: connected?, buffer: Vec::new(), deadline, until })
    }

    /// Gives the calls that follow a new deadline, counted from now.
    pub fn renew(&mut self, deadline: Duration) {
        self.deadline = deadline;
        self.until = Instant::now() + deadline;
    }

    /// Waits, for however long, until the server ends the connection. Nothing may be under way on it; dropping the wait
    /// loses nothing.
    pub async fn closed(&mut self) {
        while self.stream.read_buf(&mut self.buffer).await.is_ok_and(|bytes| bytes > 0) {}
    }

    /// Sends one command and returns its reply; an error reply is `CallError::Refused`.
    pub async fn call(&mut self, arguments: &[impl AsRef<[u8]>]) -> Result<Reply, CallError> {
        match self.exchange(&reply::encode(arguments), 1).await?.pop() {
            Some(Reply::Error(refusal)) => Err(CallError::Refused(refusal)),
            Some(reply) => Ok(reply),
            None => Err(CallError::Closed { address: self.address.clone() }),
        }
    }

    /// Sends all commands at once. There is a reply for each, in their order; error replies are among them.
    pub async fn pipeline(&mut self, commands: &[Vec<impl AsRef<[u8]>>]) -> Result<Vec<Reply>, CallError> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| reply::encode(command)).collect();
        self.exchange(&bytes, commands.len()).await
    }

    async fn exchange(&mut self, request: &[u8], replies: usize) -> Result<Vec<Reply>, CallError> {
        let exchange = exchange(&self.address, &mut self.stream, &mut self.buffer, request, replies);
        match timeout_at(self.until, exchange).await {
            Ok(result) => result,
            Err(_) => Err(CallError::AnswerDeadline { address: self.address.clone(), deadline: self.deadline }),
        }
    }
}

/// A request is written whole: its last segment does not wait for the others to be acknowledged.
async fn at_once(socket: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(socket).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connect<S: Stream + 'static>(
    address: &str,
    deadline: Duration,
    until: Instant,
    connecting: impl Future<Output = io::Result<S>>,
) -> Result<Box<dyn Stream>, CallError> {
    match timeout_at(until, connecting).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(source)) => Err(CallError::Connect { address: address.to_owned(), source }),
        Err(_) => Err(CallError::ConnectDeadline { address: address.to_owned(), deadline }),
    }
}

async fn exchange(
    address: &str,
    stream: &mut Box<dyn Stream>,
    buffer: &mut Vec<u8>,
    request: &[u8],
    expected: usize,
) -> Result<Vec<Reply>, CallError> {
    let mut replies = Vec::with_capacity(expected);
    let broken = |source| CallError::Broken { address: address.to_owned(), source };
    // A server at its client limit answers and closes before it reads: what it said matters more than our failed write.
    let written = stream.write_all(request).await;
    while replies.len() < expected {
        let parsed =
            reply::parse(buffer).map_err(|source| CallError::Protocol { address: address.to_owned(), source })?;
        if let Some((reply, used)) = parsed {
            buffer.drain(..used);
            replies.push(reply);
            continue;
        }
        if buffer.len() > MAXIMUM_BYTES {
            let source = ProtocolError::TooLarge(i64::try_from(buffer.len()).unwrap_or(i64::MAX));
            return Err(CallError::Protocol { address: address.to_owned(), source });
        }
        if stream.read_buf(buffer).await.map_err(broken)? == 0 {
            written.map_err(broken)?;
            return Err(CallError::Closed { address: address.to_owned() });
        }
    }
    Ok(replies)
}
