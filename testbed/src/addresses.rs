//! Which of the ranges that testbeds take their addresses from the host itself uses already. Pure but for asking the host.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;

use anyhow::Result;

use crate::command::ip;

/// The second numbers of all 10.x.0.0/16 in which the host has an address, a route, a gateway or a name server.
pub fn in_use() -> Result<BTreeSet<u8>> {
    let routes = ip("-4 route show table all")?;
    let resolver = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    Ok(mentioned(&routes).union(&mentioned(&resolver)).copied().collect())
}

/// A route to more than a /16 does not count: the testbed's are narrower and win over it.
fn mentioned(text: &str) -> BTreeSet<u8> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(str::split_whitespace).filter_map(second_number).collect()
}

fn second_number(word: &str) -> Option<u8> {
    let (address, length) = word.split_once('/').unwrap_or((word, "32"));
    let [first, second, ..] = address.parse::<Ipv4Addr>().ok()?.octets();
    (first == 10 && length.parse::<u8>().is_ok_and(|length| length >= 16)).then_some(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_routes_gateways_and_name_servers_are_in_use() {
        let routes = "default via 10.201.0.1 dev eth0 proto dhcp src 10.202.3.4 metric 100\n\
                      10.203.7.0/24 dev wg0 scope link\n\
                      blackhole 10.204.0.0/16\n\
                      local 10.205.0.9 dev lo table local proto kernel scope host src 10.205.0.9\n\
                      broadcast 192.168.1.255 dev eth1 table local proto kernel scope link\n";
        assert_eq!(mentioned(routes), BTreeSet::from([201, 202, 203, 204, 205]));
        assert_eq!(mentioned("# nameserver 10.7.0.1\nnameserver 10.206.0.53\n"), BTreeSet::from([206]));
    }

    #[test]
    fn a_route_wider_than_a_testbed_does_not_keep_it_out() {
        assert_eq!(mentioned("10.0.0.0/8 dev tun0\n10.192.0.0/11 via 192.0.2.1 dev tun0\n"), BTreeSet::new());
    }
}
