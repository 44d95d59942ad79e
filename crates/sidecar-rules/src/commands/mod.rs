//! Whether a command of the operator may be carried out on this node now, or why not. What would lose data, as far as this node
//! can see, is refused here too, although the operator has checked it. Pure; one file per command.

pub mod add_slots;
pub mod failover;
pub mod forget;
pub mod leave;
pub mod meet;
pub mod migrate_slots;
mod presence;
pub mod replicate;
pub mod set_config_epoch;

pub use presence::{Findings, Found, Presence};

use topology::{ClusterNode, ClusterNodes};

/// Why a command is not carried out. Nothing has been done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// The command makes no sense, now or later.
    Invalid(String),
    /// It could lose data.
    Unsafe(String),
    /// It may work later.
    NotNow(String),
}

/// What is left of a command that may be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It is so already.
    Nothing,
    Change,
}

impl Objection {
    fn invalid(detail: impl Into<String>) -> Self {
        Self::Invalid(detail.into())
    }

    fn unsafe_because(detail: impl Into<String>) -> Self {
        Self::Unsafe(detail.into())
    }
}

/// The node itself in its own view; a server always lists it.
pub fn myself(nodes: &ClusterNodes) -> Result<&ClusterNode, Objection> {
    nodes.myself().ok_or_else(|| Objection::NotNow("the server does not list itself".into()))
}

/// Where the node that is asked serves clients; `None` before anybody has met it.
pub fn own_port(nodes: &ClusterNodes) -> Option<u16> {
    nodes.myself()?.address.map(|address| address.port())
}
