//! The Wait call while it is held. Thousands are at any time, so of the call only the fact that it waits is kept: the
//! answer is made when it is due.

use super::{Operator, Refusal, calls::Calls, peer::Peer};
use crate::contract::WaitReply;
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
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
        () = held.woken() => reply(),
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

fn reply() -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(framed(&WaitReply { speak_now: true })).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// A message as gRPC sends it: not compressed, its length, itself.
fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(5 + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or_default());
    frame.put_slice(&message.encode_to_vec());
    frame.freeze()
}
