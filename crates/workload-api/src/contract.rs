//! The Workload API's types, generated from `proto/spiffe`. Regenerate with
//! `UPDATE_GOLDEN=1 cargo test -p workload-api --test contract`.
#![allow(clippy::all, clippy::pedantic)]

include!("generated/workload_api.rs");

/// The generator's own would print the private key.
impl std::fmt::Debug for X509svid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("X509svid").field("spiffe_id", &self.spiffe_id).finish_non_exhaustive()
    }
}
