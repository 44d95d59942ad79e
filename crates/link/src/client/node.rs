//! What the sidecar brings to its end of the line.

use crate::contract::{HeartbeatRequest, Sender, answer::Outcome, command::Action, report_request::Event};
use std::{future::Future, io, time::Duration};
use zeroize::Zeroizing;

pub trait Node: Send + Sync + 'static {
    fn sender(&self) -> Sender;

    /// The pod's projected token; read afresh for every connection, because the kubelet renews it.
    fn token(&self) -> impl Future<Output = io::Result<Zeroizing<String>>> + Send;

    /// What is known now. The line fills in sender, epoch, cause and round trip.
    fn heartbeat(&self) -> impl Future<Output = HeartbeatRequest> + Send;

    /// Carries out one admitted command. Dropped when its deadline has passed or the stream is lost.
    fn execute(&self, order: Order) -> impl Future<Output = Outcome> + Send;
}

/// A command that the fence let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub action: Action,
    pub deadline: Duration,
    pub orchestration_id: String,
    /// W3C trace context of the orchestration; may be empty.
    pub traceparent: String,
}

/// What the sidecar wants said now.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Something in the heartbeat changed that cannot wait a minute.
    Changed,
    Report(Event),
}
