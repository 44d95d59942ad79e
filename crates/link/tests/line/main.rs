//! Both ends on real sockets: who is refused, what abuse does, and what rotation and a change of leader cost.
// A poisoned lock means that a test has failed already.
#![allow(clippy::unwrap_used)]

mod abuse;
mod certificates;
mod conversation;
mod leadership;
mod newer_operator;
mod newer_sidecar;
mod operator;
mod raw;
mod refusals;
mod rotation;
mod shares;
mod sidecar;
