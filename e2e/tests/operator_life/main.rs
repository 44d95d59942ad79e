//! The operator's own life: killed at any write, absent, one of two. The installed operator is stopped while these run, one at a time;
//! the operators here are processes of this machine, behind a proxy that counts their writes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod absent;
mod another_kind;
mod crash;
mod crash_in_change;
mod crash_in_formation;
mod leadership;
mod memory;
mod own_operator;
mod proxy;
