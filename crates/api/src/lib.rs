//! What the programs of this project and their users agree on. Pure: no IO, no client.
//! With the feature `crd` (default) also the Kubernetes types; the sidecar does without.

#[cfg(feature = "crd")]
pub mod certificates;
#[cfg(feature = "crd")]
pub mod cluster;
#[cfg(feature = "crd")]
pub mod conditions;
#[cfg(feature = "crd")]
pub mod definition;
pub mod duration;
#[cfg(feature = "crd")]
pub mod installed;
pub mod module;
pub mod names;
pub mod node_settings;
pub mod parameters;
pub mod quantity;
#[cfg(feature = "crd")]
mod readable;
#[cfg(feature = "crd")]
pub mod stored;
pub mod text;
pub mod valkey_version;
#[cfg(feature = "crd")]
pub mod yaml;
