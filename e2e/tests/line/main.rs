//! The line between the operator and the sidecars on a real cluster: who is connected, who is turned away, and what happens when the
//! operator or a node goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod connected;
mod imposters;
mod leader;
mod neighbours;
mod node_cut;
mod older_sidecars;
mod operator_gone;
mod without_line;
