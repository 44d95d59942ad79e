//! An operator of a later version: its replies and commands carry what this sidecar's contract does not have. The sidecar takes what it
//! knows, refuses a command it does not know, and goes on.

use crate::{
    certificates::{CLUSTER, Identity, Installation, NAMESPACE},
    operator::DEADLINE,
    sidecar::{Connected, Disk, sender},
};
use anyhow::{Context, Result, bail, ensure};
use futures::{
    future::{BoxFuture, pending},
    stream::BoxStream,
};
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use link::contract::{
    Answer, Fence, HeartbeatRequest, Probe, RefusedReason, SidecarMessage, answer::Outcome, sidecar_message,
};
use prost::Message;
use rustls::{ServerConfig, crypto::ring, version::TLS13};
use std::{collections::HashMap, convert::Infallible, net::SocketAddr, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tonic::{
    Status, Streaming,
    body::Body,
    server::{Grpc, StreamingService, UnaryService},
};
use tonic_prost::ProstCodec;

/// The later contract: the numbers of today's messages, and some more.
#[derive(Clone, PartialEq, Message)]
struct Reply {
    #[prost(uint64, tag = "1")]
    epoch: u64,
    #[prost(message, optional, tag = "2")]
    accepted: Option<Accepted>,
    #[prost(string, tag = "900")]
    news: String,
}

#[derive(Clone, PartialEq, Message)]
struct Accepted {
    #[prost(uint32, tag = "1")]
    next_heartbeat_milliseconds: u32,
    #[prost(bool, tag = "2")]
    stay_connected: bool,
    #[prost(bytes = "vec", tag = "900")]
    news: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ToSidecar {
    #[prost(message, optional, tag = "1")]
    command: Option<Command>,
    /// Neither a command nor the end of the job.
    #[prost(message, optional, tag = "900")]
    another_kind: Option<Probe>,
}

#[derive(Clone, PartialEq, Message)]
struct Command {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, optional, tag = "2")]
    fence: Option<Fence>,
    #[prost(uint32, tag = "3")]
    deadline_milliseconds: u32,
    #[prost(message, optional, tag = "10")]
    probe: Option<Probe>,
    #[prost(string, tag = "900")]
    news: String,
    #[prost(message, optional, tag = "901")]
    another_action: Option<Probe>,
}

const OF_ANOTHER_ACTION: u64 = 1;
const OF_PROBE: u64 = 2;

fn command(id: u64) -> ToSidecar {
    let cluster_uid = sender(NAMESPACE, CLUSTER, "orders-0").cluster_uid;
    let command = Command {
        id,
        fence: Some(Fence { cluster_uid, orchestration_id: "job".into(), step_version: 1, epoch: 1 }),
        deadline_milliseconds: 5000,
        probe: (id == OF_PROBE).then_some(Probe {}),
        news: "of a later version".into(),
        another_action: (id == OF_ANOTHER_ACTION).then_some(Probe {}),
    };
    ToSidecar { command: Some(command), another_kind: None }
}

struct Beats;

impl UnaryService<HeartbeatRequest> for Beats {
    type Response = Reply;
    type Future = BoxFuture<'static, Result<tonic::Response<Reply>, Status>>;

    fn call(&mut self, _: tonic::Request<HeartbeatRequest>) -> Self::Future {
        let news = b"of a later version".to_vec();
        let accepted = Accepted { next_heartbeat_milliseconds: 60_000, stay_connected: true, news };
        let reply = Reply { epoch: 1, accepted: Some(accepted), news: "of a later version".into() };
        Box::pin(async { Ok(tonic::Response::new(reply)) })
    }
}

/// Sends everything at once and hands on what comes back.
struct Job(mpsc::Sender<Answer>);

impl StreamingService<SidecarMessage> for Job {
    type Response = ToSidecar;
    type ResponseStream = BoxStream<'static, Result<ToSidecar, Status>>;
    type Future = BoxFuture<'static, Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<SidecarMessage>>) -> Self::Future {
        tokio::spawn(hand_on(request.into_inner(), self.0.clone()));
        let another_kind = ToSidecar { command: None, another_kind: Some(Probe {}) };
        let sent = [another_kind, command(OF_ANOTHER_ACTION), command(OF_PROBE)].map(Ok);
        let stream: Self::ResponseStream = Box::pin(futures::stream::iter(sent));
        // The job is not done: the stream stays open.
        let stream = futures::StreamExt::chain(stream, futures::stream::once(pending()));
        Box::pin(async { Ok(tonic::Response::new(Box::pin(stream) as Self::ResponseStream)) })
    }
}

async fn hand_on(mut incoming: Streaming<SidecarMessage>, answers: mpsc::Sender<Answer>) {
    while let Ok(Some(message)) = incoming.message().await {
        if let Some(sidecar_message::Message::Answer(answer)) = message.message {
            let _ = answers.send(answer).await;
        }
    }
}

async fn serve(request: Request<Incoming>, answers: mpsc::Sender<Answer>) -> Result<Response<Body>, Infallible> {
    Ok(match request.uri().path() {
        "/valkey.operator.v1.Line/Heartbeat" => {
            Grpc::new(ProstCodec::<Reply, HeartbeatRequest>::default()).unary(Beats, request).await
        }
        "/valkey.operator.v1.Line/Orchestrate" => {
            Grpc::new(ProstCodec::<ToSidecar, SidecarMessage>::default()).streaming(Job(answers), request).await
        }
        _ => Status::unimplemented("not needed here").into_http(),
    })
}

/// Stops when dropped.
struct NewerOperator {
    address: SocketAddr,
    answers: mpsc::Receiver<Answer>,
    task: JoinHandle<Result<()>>,
}

impl NewerOperator {
    async fn start(identity: Identity) -> Result<Self> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let mut config = builder
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(identity.chain, identity.key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (sent, answers) = mpsc::channel(8);
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), sent));
        Ok(Self { address, answers, task })
    }

    /// By the commands' numbers: they may come in any order.
    async fn answers(&mut self, count: usize) -> Result<HashMap<u64, Outcome>> {
        let mut found = HashMap::new();
        while found.len() < count {
            let answer = timeout(DEADLINE, self.answers.recv()).await;
            let answer = answer.with_context(|| format!("only {found:?}"))?.context("the operator is gone")?;
            found.insert(answer.command_id, answer.outcome.context("an answer without an outcome")?);
        }
        Ok(found)
    }
}

impl Drop for NewerOperator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, answers: mpsc::Sender<Answer>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(converse(stream, acceptor.clone(), answers.clone()));
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, answers: mpsc::Sender<Answer>) -> Result<()> {
    let stream = acceptor.accept(stream).await?;
    let service = service_fn(move |request| serve(request, answers.clone()));
    Ok(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await?)
}

#[tokio::test]
async fn a_sidecar_refuses_a_later_operators_command_by_name_and_obeys_the_one_it_knows() -> Result<()> {
    let installation = Installation::new()?;
    let mut operator = NewerOperator::start(installation.operator_identity()?).await?;
    let credentials = installation.sidecar(NAMESPACE, CLUSTER)?;
    let sidecar = Connected::start(vec![operator.address.to_string()], credentials, "orders-0", &Disk::default())?;
    let answers = operator.answers(2).await?;
    let Some(Outcome::Refused(refused)) = answers.get(&OF_ANOTHER_ACTION) else { bail!("{answers:?}") };
    ensure!(refused.reason() == RefusedReason::UnknownCommand, "{refused:?}");
    ensure!(refused.detail.contains("older than the command"), "{refused:?}");
    ensure!(matches!(answers.get(&OF_PROBE), Some(Outcome::Done(_))), "{answers:?}");
    ensure!(sidecar.node.executed.lock().unwrap().len() == 1, "only the known one was carried out");
    ensure!(sidecar.connected() && sidecar.state.borrow().streaming, "{:?}", sidecar.state.borrow());
    Ok(())
}
