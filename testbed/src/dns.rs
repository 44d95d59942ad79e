//! One question to a DNS server, to see that it answers.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Succeeds when the server knows an address for the name.
pub fn resolve(server: Ipv4Addr, name: &str) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket.send_to(&question(name), (server, 53)).with_context(|| format!("cannot reach DNS at {server}"))?;
    let mut reply = [0; 512];
    let size = socket.recv(&mut reply).with_context(|| format!("no answer from DNS at {server}"))?;
    let answers = answers(reply.get(..size).unwrap_or_default());
    ensure!(answers.is_some_and(|count| count > 0), "DNS at {server} does not know {name}");
    Ok(())
}

/// A query for an address record: header, name as counted labels, type A, class IN.
fn question(name: &str) -> Vec<u8> {
    let mut packet = vec![0x2a, 0x2a, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(u8::try_from(label.len()).unwrap_or(63));
        packet.extend(label.bytes());
    }
    packet.extend([0, 0, 1, 0, 1]);
    packet
}

/// How many records the reply has; nothing when it is an error.
fn answers(reply: &[u8]) -> Option<u16> {
    let error = reply.get(3)? & 15;
    let count = [*reply.get(6)?, *reply.get(7)?];
    (error == 0).then(|| u16::from_be_bytes(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reply_has_no_answers() {
        assert_eq!(answers(&[0, 0, 0x81, 0x83, 0, 1, 0, 1]), None);
        assert_eq!(answers(&[0, 0, 0x81, 0x80, 0, 1, 0, 2]), Some(2));
        assert_eq!(answers(&[0, 0]), None);
    }
}
