//! What the operator brings to its end of the line: its logic, the proof of pods, its leadership and its instruments.

use super::{Refusal, Session};
use crate::contract::{HeartbeatRequest, ReportRequest};
use futures::future::BoxFuture;
use std::{future::Future, net::SocketAddr, time::Duration};

/// A sidecar whose certificate, token and words agree.
#[derive(Clone, Debug)]
pub struct Sidecar {
    pub pod: ProvenPod,
    pub version: String,
    pub certificate: pki::LeafFacts,
    pub address: SocketAddr,
    /// Tells connections of one pod apart; grows.
    pub connection: u64,
}

/// What a pod's token proves, together with the cluster the operator knows that pod to belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenPod {
    pub namespace: String,
    pub cluster: String,
    pub cluster_uid: String,
    pub pod: String,
    pub pod_uid: String,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum ProofError {
    #[error("{0}")]
    Refused(String),
    /// The sidecar tries again later.
    #[error("{0}")]
    Unavailable(String),
}

/// Says which pod speaks.
pub trait PodProof: Send + Sync + 'static {
    /// Checks a pod's token; asked once per connection.
    fn prove<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<ProvenPod, ProofError>>;

    /// The pod that a token says it is of, whether or not it is good: only to say whose was refused. None when there is no such pod.
    fn claims(&self, _token: &str) -> Option<ProvenPod> {
        None
    }

    /// Whether that still holds; asked at every call, so it must be cheap. A proof that nothing takes back holds.
    fn holds(&self, _pod: &ProvenPod) -> Result<(), ProofError> {
        Ok(())
    }
}

/// The reply to a heartbeat, as far as it is the operator's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attention {
    pub next_heartbeat: Duration,
    pub stay_connected: bool,
}

/// The operator's logic. Called only while it leads.
pub trait Operator: Send + Sync + 'static {
    fn heartbeat(&self, sidecar: &Sidecar, beat: HeartbeatRequest) -> impl Future<Output = Attention> + Send;
    fn report(&self, sidecar: &Sidecar, report: ReportRequest) -> impl Future<Output = ()> + Send;
    /// Runs the job; the stream ends when this returns. Dropped when leadership is lost.
    fn orchestrate(&self, session: Session) -> impl Future<Output = ()> + Send;
    /// A token was refused that says it is this pod's. Nobody vouches for the pod; whoever showed it has its cluster's certificate.
    fn turned_away(&self, _claimed: &ProvenPod, _why: &str) {}
    /// One of a pod's connections ended. After a change of certificates it is the older of two: compare `connection` with
    /// that of the last heartbeat.
    fn disconnected(&self, sidecar: &Sidecar);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    Leader {
        epoch: u64,
    },
    /// `leader` is host:port of the line of the replica that leads, when known.
    Follower {
        leader: Option<String>,
    },
}

/// The operator's instruments.
pub trait Meter: Send + Sync + 'static {
    fn refused(&self, refusal: &Refusal);
    fn connections(&self, open: usize);
    fn streams(&self, open: usize);
    /// `served`: from the complete request to the reply. `round_trip`: what the sidecar measured the time before.
    fn heartbeat(&self, served: Duration, round_trip: Option<Duration>);
}
