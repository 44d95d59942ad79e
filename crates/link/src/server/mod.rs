//! The operator's end of the line: accepts sidecars, proves who they are, and hands their calls to an `Operator`. IO.

mod admission;
mod bucket;
mod calls;
mod connection;
mod handshakes;
mod held;
mod limits;
mod listen;
mod opening;
mod peer;
mod rates;
mod refusal;
mod replies;
mod service;
mod session;
mod shares;
mod spread;
mod wakeups;

pub use limits::Limits;
pub use listen::{Server, ServerParts};
pub use refusal::Refusal;
pub use service::{Attention, Leadership, Meter, Operator, PodProof, ProofError, ProvenPod, Sidecar};
pub use session::{Session, SessionError};
pub use wakeups::Wakeups;
