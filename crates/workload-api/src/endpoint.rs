//! Where a Workload API listens, as SPIFFE writes it: `unix:///run/spire/agent.sock` or `tcp://127.0.0.1:8000`. Pure.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

/// Where the address is found when nothing else says it.
pub const ENVIRONMENT: &str = "SPIFFE_ENDPOINT_SOCKET";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    #[error("{0:?} is no address of a Workload API: write unix:///path/of/the.sock or tcp://<IP address>:<port>")]
    Scheme(String),
    #[error("the socket of the Workload API in {0:?} has no absolute path: write unix:///path/of/the.sock")]
    Path(String),
    #[error(
        "the Workload API in {0:?} is not at an IP address with a port and nothing behind: write tcp://127.0.0.1:8000"
    )]
    Address(String),
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(rest) = text.strip_prefix("unix:") {
            return unix(rest).ok_or_else(|| InvalidEndpoint::Path(text.to_owned()));
        }
        let address = text.strip_prefix("tcp://").ok_or_else(|| InvalidEndpoint::Scheme(text.to_owned()))?;
        address.parse().map(Self::Tcp).map_err(|_| InvalidEndpoint::Address(text.to_owned()))
    }
}

/// With or without the two slashes of an empty authority, and with nothing but a path.
fn unix(rest: &str) -> Option<Endpoint> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let plain = !path.contains(['?', '#']) && !path.ends_with('/');
    (path.starts_with('/') && !path.starts_with("//") && plain).then(|| Endpoint::Unix(path.into()))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_spiffe_writes_them() {
        let cases = [
            ("unix:///run/agent.sock", Endpoint::Unix("/run/agent.sock".into())),
            ("unix:/run/agent.sock", Endpoint::Unix("/run/agent.sock".into())),
            ("tcp://127.0.0.1:8000", Endpoint::Tcp(([127, 0, 0, 1], 8000).into())),
        ];
        for (text, endpoint) in cases {
            assert_eq!(text.parse(), Ok(endpoint));
        }
        assert_eq!("unix:/a".parse::<Endpoint>().unwrap().to_string(), "unix:///a");
    }

    #[test]
    fn anything_else_is_refused_with_the_remedy() {
        for text in ["", "/run/agent.sock", "http://127.0.0.1:8000", "UNIX:///a"] {
            assert_eq!(text.parse::<Endpoint>(), Err(InvalidEndpoint::Scheme(text.to_owned())));
        }
        for text in ["unix:", "unix://", "unix:///", "unix:run", "unix://host/run", "unix:///a?b", "unix:////a"] {
            assert_eq!(text.parse::<Endpoint>(), Err(InvalidEndpoint::Path(text.to_owned())), "{text}");
        }
        for text in ["tcp://localhost:8000", "tcp://127.0.0.1", "tcp://127.0.0.1:8000/foo"] {
            assert_eq!(text.parse::<Endpoint>(), Err(InvalidEndpoint::Address(text.to_owned())));
        }
    }
}
