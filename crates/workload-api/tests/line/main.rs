//! Both ends of the line with identities from Workload APIs on real sockets: what they survive, and whom they refuse.
// A poisoned lock means that a test has failed already.
#![allow(clippy::unwrap_used)]

mod ends;
mod identities;
mod trouble;
mod world;
