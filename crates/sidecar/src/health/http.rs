//! The smallest HTTP server the kubelet, Prometheus and curl are content with: one GET per connection. IO.
//! A general server costs several times the memory for keep-alive, bodies and HTTP/2 that nobody here asks for.

use std::{future::Future, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};

const LONGEST_REQUEST: usize = 8 * 1024;
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// Many more than all probes together; beyond it connections wait in the kernel.
const CONNECTIONS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub content_type: &'static str,
    pub body: String,
}

impl Response {
    pub fn json(status: u16, body: &impl serde::Serialize) -> Self {
        let body = serde_json::to_string(body).unwrap_or_default() + "\n";
        Self { status, content_type: "application/json", body }
    }

    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    fn bytes(&self) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            _ => "Service Unavailable",
        };
        let Self { status, content_type, body } = self;
        let length = body.len();
        format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// Serves until it is dropped. `answer` gets the path without its query.
pub async fn serve<F, A>(listener: TcpListener, answer: F)
where
    F: Fn(String) -> A + Clone + Send + 'static,
    A: Future<Output = Response> + Send,
{
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answer = answer.clone();
                tokio::spawn(async move {
                    let _ = converse(stream, answer).await;
                    drop(permit);
                });
            }
            // Out of file descriptors, most likely: going on at once would only spin.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse<F, A>(mut stream: TcpStream, answer: F) -> io::Result<()>
where
    F: Fn(String) -> A,
    A: Future<Output = Response>,
{
    let response = match timeout(REQUEST_DEADLINE, read_head(&mut stream)).await {
        Ok(Ok(head)) => match parse(&head) {
            Ok(path) => answer(path).await,
            Err(refusal) => refusal,
        },
        Ok(Err(error)) => return Err(error),
        Err(_) => return Ok(()),
    };
    let sending = async {
        stream.write_all(&response.bytes()).await?;
        stream.shutdown().await
    };
    timeout(REQUEST_DEADLINE, sending).await.unwrap_or(Ok(()))
}

async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(512);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if head.len() > LONGEST_REQUEST || stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(head)
}

fn parse(head: &[u8]) -> Result<String, Response> {
    let text = String::from_utf8_lossy(head);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
            Ok(target.split('?').next().unwrap_or_default().to_owned())
        }
        (Some(_), Some(_), Some(version)) if version.starts_with("HTTP/1.") => {
            Err(Response::text(405, "only GET is answered here\n"))
        }
        _ => Err(Response::text(400, "this is not an HTTP/1.1 request\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_taken_without_its_query() {
        assert_eq!(parse(b"GET /healthz?a=b HTTP/1.1\r\nHost: x\r\n\r\n"), Ok("/healthz".to_owned()));
    }

    #[test]
    fn other_methods_and_other_protocols_are_refused() {
        let status = |head: &[u8]| parse(head).unwrap_err().status;
        assert_eq!(status(b"POST /healthz HTTP/1.1\r\n\r\n"), 405);
        for head in [b"PING\r\n\r\n".as_slice(), b"", b"\x16\x03\x01\x02", b"GET /\r\n\r\n"] {
            assert_eq!(status(head), 400);
        }
    }
}
