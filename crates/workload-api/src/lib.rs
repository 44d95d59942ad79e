//! Identities from a SPIFFE Workload API, as SPIRE serves it on a socket in the pod: the other source beside the built-in
//! authority. `Source` follows the API's stream and swaps the line's credentials. IO, except where a module says pure.
//! Used by operator and sidecar when they are configured so.

mod answer;
mod backoff;
pub mod contract;
mod endpoint;
mod follow;
mod source;
#[cfg(feature = "testing")]
pub mod testing;

pub use answer::AnswerError;
pub use endpoint::{ENVIRONMENT, Endpoint, InvalidEndpoint};
pub use follow::FollowError;
pub use source::{Source, Times};
