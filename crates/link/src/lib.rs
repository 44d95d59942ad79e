//! The line between the operator and the sidecars: the contract, mutual TLS by SPIFFE identity, and both ends.
//! IO, except where a module says pure. `server` is the operator's end, `client` the sidecar's.

#[cfg(feature = "channel")]
pub mod channel;
#[cfg(feature = "client")]
pub mod client;
pub mod contract;
pub mod credentials;
mod keep_alive;
pub mod sentence;
#[cfg(feature = "server")]
pub mod server;
mod tls;
mod verified_chains;
mod verify;

pub use credentials::{Credentials, CredentialsError, Current, IdentitySource};

/// Where the bearer token that proves the pod travels: the metadata of a connection's first call.
pub(crate) const PROOF_METADATA: &str = "authorization";
pub(crate) const PROOF_PREFIX: &str = "Bearer ";
