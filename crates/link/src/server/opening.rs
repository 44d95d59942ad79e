//! A job's stream before its sidecar is let in: only a hello fits. The large limit of a stream is for answers to commands.

use super::Refusal;
use hyper::body::{Body, Bytes, Frame, Incoming};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

/// Travels with the request to the method, which says when the stream is open.
#[derive(Clone, Default)]
pub struct Opened(Arc<AtomicBool>);

impl Opened {
    pub fn open(&self) {
        self.0.store(true, Ordering::Release);
    }
}

pub struct Opening {
    inner: Incoming,
    left: usize,
    opened: Opened,
}

impl Opening {
    pub fn new(inner: Incoming, most: usize, opened: Opened) -> Self {
        Self { inner, left: most, opened }
    }

    fn takes(&mut self, size: usize) -> bool {
        if self.opened.0.load(Ordering::Acquire) {
            return true;
        }
        let fits = size <= self.left;
        self.left = self.left.saturating_sub(size);
        fits
    }
}

impl Body for Opening {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other.map(|failed| failed.map_err(Into::into))),
        };
        let size = frame.data_ref().map_or(0, Bytes::len);
        let taken = if self.takes(size) { Ok(frame) } else { Err(Refusal::OversizedMessage.status().into()) };
        Poll::Ready(Some(taken))
    }
}
