//! The Wait call while it is held. Thousands are at any time, so of the call only the fact that it waits is kept: the
//! answer is made when it is due.

use super::{Operator, Refusal, calls::Calls, peer::Peer, replies::reply};
use crate::contract::WaitReply;
use http::Response;
use std::sync::atomic::Ordering;
use tonic::body::Body;

/// Waits for an admitted connection's wakeup, or for its end.
pub async fn hold<O: Operator>(calls: Calls<O>) -> Response<Body> {
    if calls.peer.waiting.swap(true, Ordering::AcqRel) {
        return calls.refuse(Refusal::SecondStream).into_http();
    }
    let held = Held(&calls.peer);
    let mut closing = calls.peer.closing.subscribe();
    tokio::select! {
        () = held.woken() => reply(&WaitReply { speak_now: true }),
        _ = closing.wait_for(|closing| *closing) => Refusal::Closing.status().into_http(),
    }
}

struct Held<'a>(&'a Peer);

impl Held<'_> {
    async fn woken(&self) {
        match self.0.admitted() {
            Some(admitted) => admitted.wakeup.woken().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.waiting.store(false, Ordering::Release);
    }
}
