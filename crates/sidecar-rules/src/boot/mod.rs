//! Whether a Valkey that wants to start may, and as what. Pure.

mod decision;
mod past;
mod peer_answer;

pub use decision::{Data, Decision, Facts, Start, better_copy, decide, stopped_in_order};
pub use past::{Past, PastNode, Peer};
pub use peer_answer::{Copy, CopyState, Followed, PeerAnswer, Successor};
