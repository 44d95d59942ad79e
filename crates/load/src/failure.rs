//! Why a command got no answer that counts. Pure; the client makes them, the ledger counts them by kind.

use std::{io, net::SocketAddr};
use valkey::CallError;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("no node is known to own slot {slot}")]
    NoOwner { slot: u16 },
    #[error("{address} answered {message}")]
    Refused { address: SocketAddr, message: String },
    #[error("slot {slot} was redirected more than {limit} times")]
    RedirectLoop { slot: u16, limit: usize },
    #[error("{address} has {got} of {wanted} replicas that have the write")]
    TooFewReplicas { address: SocketAddr, got: i64, wanted: u32 },
    #[error("could not reach {address}")]
    Unreached { address: SocketAddr, source: CallError },
    #[error("{address} got the command and gave no answer")]
    Unanswered { address: SocketAddr, source: CallError },
}

impl Failure {
    /// What went wrong with the call itself, told apart by whether the command can have reached the server.
    pub fn of_call(address: SocketAddr, error: CallError) -> Self {
        match error {
            CallError::Refused(refusal) => Self::Refused { address, message: refusal.message },
            CallError::Connect { .. } | CallError::ConnectDeadline { .. } => Self::Unreached { address, source: error },
            _ => Self::Unanswered { address, source: error },
        }
    }

    /// The command may or may not have been executed.
    pub fn is_uncertain(&self) -> bool {
        matches!(self, Self::Unanswered { .. } | Self::TooFewReplicas { .. })
    }

    /// A short name to count by: the server's own code, or what the network did.
    pub fn kind(&self) -> String {
        match self {
            Self::NoOwner { .. } => "no owner".to_owned(),
            Self::RedirectLoop { .. } => "redirect loop".to_owned(),
            Self::TooFewReplicas { .. } => "too few replicas".to_owned(),
            Self::Refused { message, .. } => message.split(' ').next().unwrap_or_default().to_owned(),
            Self::Unreached { source, .. } | Self::Unanswered { source, .. } => network(source).to_owned(),
        }
    }

    pub fn is_try_again(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.starts_with("TRYAGAIN"))
    }
}

fn network(error: &CallError) -> &'static str {
    match error {
        CallError::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused => "connection refused",
        CallError::Connect { .. } => "cannot connect",
        CallError::ConnectDeadline { .. } => "connect timeout",
        CallError::AnswerDeadline { .. } => "answer timeout",
        CallError::Closed { .. } | CallError::Broken { .. } => "connection lost",
        _ => "unreadable answer",
    }
}

/// The message with those of its sources.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    std::iter::once(error.to_string()).chain(sources.map(ToString::to_string)).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use valkey::Refusal;

    #[test]
    fn a_command_that_never_left_is_told_from_one_without_an_answer() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let name = address.to_string();
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let cases = [
            (CallError::Connect { address: name.clone(), source: refused }, "connection refused", false),
            (CallError::AnswerDeadline { address: name.clone(), deadline: Duration::ZERO }, "answer timeout", true),
            (CallError::Closed { address: name }, "connection lost", true),
            (CallError::Refused(Refusal::new("CLUSTERDOWN The cluster is down")), "CLUSTERDOWN", false),
        ];
        for (error, kind, uncertain) in cases {
            let failure = Failure::of_call(address, error);
            assert_eq!((failure.kind().as_str(), failure.is_uncertain()), (kind, uncertain));
        }
    }
}
