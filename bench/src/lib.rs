//! What the measurements on a testbed share: the cluster that is measured, the bare pods beside it, waiting, and the tables.

pub mod bare_pods;
pub mod cluster;
pub mod numbers;
pub mod table;
pub mod wait;
