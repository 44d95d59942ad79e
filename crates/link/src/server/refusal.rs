//! Why the operator's end refused a peer: one reason each, for metrics and for the peer. Pure.

use rustls::{CertificateError, OtherError};
use std::{error::Error, io};
use tonic::{Code, Status};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
pub enum Refusal {
    #[error("{0}")]
    Certificate(pki::Refusal),
    #[error("the bytes received are not TLS 1.3")]
    NotTls,
    #[error("the TLS handshake failed")]
    Handshake,
    #[error("the TLS handshake took too long")]
    HandshakeTime,
    #[error("nothing was said on the connection in time")]
    FirstByteTime,
    #[error("the handshake was not done when others needed its place")]
    Displaced,
    #[error("the limit of connections is reached")]
    TooManyConnections,
    #[error("the limit of connections from one address is reached")]
    TooManyFromAddress,
    #[error("too many handshakes are going on, or were begun from one address")]
    TooManyHandshakes,
    #[error("the limit of connections with one cluster's certificate is reached")]
    TooManyFromCluster,
    #[error(
        "the limit of connections with one cluster's certificate and without a proven pod is reached, in all or from one address"
    )]
    TooManyUnproven,
    #[error("the limit of connections of one pod is reached")]
    TooManyFromPod,
    #[error("no admitted call came in time")]
    NoFirstCall,
    #[error("the message is larger than this method allows")]
    OversizedMessage,
    #[error("too many calls on one connection: heartbeats are due about every minute")]
    TooManyCalls,
    #[error("too many calls of one cluster are under way")]
    TooManyCallsFromCluster,
    #[error("too many calls of one pod are under way, or were made")]
    TooManyCallsFromPod,
    #[error("the limit of streams of one cluster is reached")]
    TooManyStreamsFromCluster,
    #[error("the limit of streams of one pod is reached")]
    TooManyStreamsFromPod,
    #[error("the call was not complete in time")]
    CallTime,
    #[error("{field} is missing")]
    #[strum(serialize = "Incomplete")]
    Missing { field: &'static str },
    #[error("the first call of a connection must carry the pod's token in the metadata `authorization: Bearer …`")]
    NoPodProof,
    #[error("the pod's token was refused: {0}")]
    PodProof(String),
    #[error("the pod's token was refused: a token was refused on this connection: dial again")]
    #[strum(serialize = "PodProof")]
    RefusedBefore,
    #[error("the pod's token cannot be checked now: {0}")]
    PodProofUnavailable(String),
    #[error("this connection's pod is being proven: one call at a time until it is")]
    ProofUnderWay,
    #[error("the certificate is another cluster's")]
    OtherCluster,
    #[error("the token is another pod's")]
    OtherPod,
    #[error("the certificate of this connection has expired: connect again with the new one")]
    OutlivedCertificate,
    #[error("this connection has such a call open already")]
    SecondStream,
    #[error("this connection is about to close")]
    Closing,
    #[error("this replica does not lead")]
    NotLeader,
}

impl Refusal {
    /// The metric's label.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Certificate(refusal) => refusal.reason(),
            other => other.into(),
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::NoPodProof | Self::PodProof(_) | Self::RefusedBefore | Self::OutlivedCertificate => {
                Code::Unauthenticated
            }
            Self::OtherCluster | Self::OtherPod => Code::PermissionDenied,
            Self::Missing { .. } => Code::InvalidArgument,
            Self::TooManyCalls
            | Self::TooManyFromPod
            | Self::TooManyCallsFromCluster
            | Self::TooManyCallsFromPod
            | Self::TooManyStreamsFromCluster
            | Self::TooManyStreamsFromPod => Code::ResourceExhausted,
            Self::OversizedMessage => Code::OutOfRange,
            Self::CallTime => Code::DeadlineExceeded,
            Self::SecondStream => Code::AlreadyExists,
            _ => Code::Unavailable,
        }
    }

    pub(super) fn status(&self) -> Status {
        Status::new(self.code(), self.to_string())
    }

    /// What a failed TLS handshake was about.
    pub(super) fn of_handshake(error: &io::Error) -> Self {
        let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
            return Self::Handshake;
        };
        match error {
            rustls::Error::NoCertificatesPresented => Self::Certificate(pki::Refusal::NoCertificate),
            rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
                of_certificate(inner.as_ref())
            }
            rustls::Error::InvalidMessage(_) | rustls::Error::PeerIncompatible(_) => Self::NotTls,
            _ => Self::Handshake,
        }
    }
}

fn of_certificate(error: &(dyn Error + Send + Sync + 'static)) -> Refusal {
    error.downcast_ref::<pki::Refusal>().cloned().map_or(Refusal::Handshake, Refusal::Certificate)
}
