//! A sidecar of a later version: its words carry what this operator's contract does not have. The operator takes what it knows, treats the
//! rest as not said, and the connection goes on.

use crate::{
    certificates::{CLUSTER, Installation, NAMESPACE},
    operator::Running,
    raw::{Channel, channel},
    sidecar::sender,
};
use anyhow::{Context, Result, ensure};
use http::uri::PathAndQuery;
use link::contract::{HeartbeatCause, HeartbeatReply, ReportReply, Role, Sender, heartbeat_reply::Verdict};
use prost::Message;
use tonic::{Code, Request, Status, client::Grpc};
use tonic_prost::ProstCodec;

/// A value that no enum has today.
const LATER: i32 = 77;

/// The later contract: the numbers of today's messages, and some more.
#[derive(Clone, PartialEq, Message)]
struct Beat {
    #[prost(message, optional, tag = "1")]
    sender: Option<Sender>,
    #[prost(message, optional, tag = "3")]
    node: Option<State>,
    #[prost(int32, tag = "7")]
    cause: i32,
    #[prost(string, tag = "900")]
    news: String,
}

#[derive(Clone, PartialEq, Message)]
struct State {
    #[prost(string, tag = "1")]
    node_id: String,
    #[prost(int32, tag = "2")]
    role: i32,
    #[prost(bytes = "vec", tag = "900")]
    news: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Report {
    #[prost(message, optional, tag = "1")]
    sender: Option<Sender>,
    #[prost(string, tag = "2")]
    event_id: String,
    #[prost(message, optional, tag = "900")]
    another_event: Option<State>,
}

struct NewerSidecar(Grpc<Channel>);

impl NewerSidecar {
    async fn connect(installation: &Installation, running: &Running) -> Result<Self> {
        let identity = installation.identity(NAMESPACE, CLUSTER)?;
        let channel = channel(running.address, Some(identity)).await?;
        Ok(Self(Grpc::with_origin(channel, "https://operator".parse()?)))
    }

    async fn call<Q, A>(&mut self, method: &'static str, words: Q) -> Result<Result<A, Status>>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.0.ready().await.context("the connection is gone")?;
        let mut request = Request::new(words);
        let token = format!("Bearer {NAMESPACE}/{CLUSTER}/orders-0");
        request.metadata_mut().insert("authorization", token.parse()?);
        let path = PathAndQuery::from_static(method);
        let answer = self.0.unary(request, path, ProstCodec::<Q, A>::default()).await;
        Ok(answer.map(tonic::Response::into_inner))
    }

    async fn beat(&mut self) -> Result<HeartbeatReply> {
        let node = State { node_id: "abc".into(), role: LATER, news: vec![1, 2, 3] };
        let sender = Some(sender(NAMESPACE, CLUSTER, "orders-0"));
        let beat = Beat { sender, node: Some(node), cause: LATER, news: "of a later version".into() };
        Ok(self.call("/valkey.operator.v1.Line/Heartbeat", beat).await??)
    }
}

#[tokio::test]
async fn an_operator_takes_what_it_knows_of_a_later_sidecars_words() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut sidecar = NewerSidecar::connect(&installation, &running).await?;
    ensure!(matches!(sidecar.beat().await?.verdict, Some(Verdict::Accepted(_))));
    let beats = running.received.beats.lock().unwrap();
    let (_, beat) = beats.first().context("nothing was heard")?;
    let node = beat.node.as_ref().context("the node is missing")?;
    ensure!(node.node_id == "abc" && node.role() == Role::Unspecified, "{node:?}");
    ensure!(beat.cause() == HeartbeatCause::Unspecified, "{beat:?}");
    Ok(())
}

#[tokio::test]
async fn a_later_sidecars_event_and_method_are_answered_and_the_connection_goes_on() -> Result<()> {
    let installation = Installation::new()?;
    let running = Running::start(&installation).await?;
    let mut sidecar = NewerSidecar::connect(&installation, &running).await?;
    sidecar.beat().await?;
    let report = Report {
        sender: Some(sender(NAMESPACE, CLUSTER, "orders-0")),
        event_id: "1".into(),
        another_event: Some(State::default()),
    };
    let _taken: ReportReply = sidecar.call("/valkey.operator.v1.Line/Report", report).await??;
    ensure!(running.received.reports.lock().unwrap()[0].event.is_none());
    let refused = sidecar.call::<_, ReportReply>("/valkey.operator.v1.Line/Later", Report::default()).await?;
    ensure!(refused.as_ref().err().map(Status::code) == Some(Code::Unimplemented), "{refused:?}");
    sidecar.beat().await?;
    ensure!(running.beats() == 2, "it is one connection still");
    Ok(())
}
