//! Replies made without the generated code: what they answer is not read, or was let go. Pure.

use super::Refusal;
use crate::contract::{HeartbeatReply, NotLeader, ReportReply, heartbeat_reply::Verdict};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
use tonic::body::Body;

pub const HEARTBEAT: &str = "/valkey.operator.v1.Line/Heartbeat";
pub const ORCHESTRATE: &str = "/valkey.operator.v1.Line/Orchestrate";
pub const REPORT: &str = "/valkey.operator.v1.Line/Report";
pub const WAIT: &str = "/valkey.operator.v1.Line/Wait";

/// What a replica that does not lead says, whatever was sent: who does, or that it does not.
pub fn not_leader(path: &str, leader: Option<String>) -> Result<Response<Body>, Refusal> {
    let other = NotLeader { leader: leader.unwrap_or_default() };
    match path {
        HEARTBEAT => Ok(reply(&HeartbeatReply { epoch: 0, verdict: Some(Verdict::NotLeader(other)) })),
        REPORT => Ok(reply(&ReportReply { epoch: 0, not_leader: Some(other) })),
        _ => Err(Refusal::NotLeader),
    }
}

pub fn reply(message: &impl Message) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(framed(message)).with_trailers(async { Some(Ok(trailers)) });
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
