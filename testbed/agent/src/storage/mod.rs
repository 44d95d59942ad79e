//! Dynamic local volumes: each a file with XFS on a loop device, so that sizes are real.
//! `size`, `claim` and `volume` decide and build (pure); `disk` has the verbs; `provision` (claims) and `reclaim`
//! (volumes) are the two controllers.

pub mod claim;
pub mod class;
pub mod disk;
pub mod growth;
pub mod provision;
pub mod reclaim;
pub mod report;
pub mod size;
pub mod volume;

/// The provisioner's name in StorageClasses and on the volumes it made.
pub const PROVISIONER: &str = "testbed.valkey.io/local";
