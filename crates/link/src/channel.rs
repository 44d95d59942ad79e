//! One HTTP/2 connection as the generated client wants it. IO.

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use std::task::{Context, Poll};
use tonic::body::Body;
use tower_service::Service;

#[derive(Clone)]
pub struct Channel {
    pub sender: SendRequest<Body>,
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}
