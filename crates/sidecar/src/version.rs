//! The version this sidecar says it has: on the line, in its metrics, on its command line.

/// The feature makes a build for tests of an operator that meets older sidecars; `images/build sidecar-older` packages it.
pub const VERSION: &str = if cfg!(feature = "older") { "0.0.9" } else { env!("CARGO_PKG_VERSION") };
