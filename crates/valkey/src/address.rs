//! Where a server listens. Pure.

use std::{fmt, net::SocketAddr, path::PathBuf};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "{}", path.display()),
            Address::Tcp(address) => write!(f, "{address}"),
        }
    }
}
