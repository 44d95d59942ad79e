//! What is wrong with the peers of `spec.networkPolicy`: the API server would refuse the NetworkPolicy, and one that is stored already
//! would stay as it is. Pure; a part of `problems`.

use crate::problems::Problem;
use api::cluster::effective::NetworkPolicy;
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicyPeer};
use std::net::IpAddr;

pub fn problems(policy: &NetworkPolicy) -> Vec<Problem> {
    let lists = [("from", &policy.from), ("metricsFrom", &policy.metrics_from)];
    let peers = lists.into_iter().flat_map(|(field, list)| {
        list.iter().flatten().enumerate().map(move |(at, peer)| (format!("spec.networkPolicy.{field}[{at}]"), peer))
    });
    peers.filter_map(|(field, peer)| Some(Problem { field, problem: problem(peer)? })).collect()
}

fn problem(peer: &NetworkPolicyPeer) -> Option<String> {
    let selects = peer.namespace_selector.is_some() || peer.pod_selector.is_some();
    match &peer.ip_block {
        None if selects => None,
        None => Some("has neither ipBlock nor namespaceSelector nor podSelector: give it one of them".to_owned()),
        Some(_) if selects => Some("has an ipBlock and a selector: make two entries of it".to_owned()),
        Some(block) => block_problem(block),
    }
}

fn block_problem(block: &IPBlock) -> Option<String> {
    let malformed = |text: &str| format!("{text:?} is no network: write it like 10.0.0.0/8 or fd00::/8");
    let Some(whole) = Network::parse(&block.cidr) else { return Some(malformed(&block.cidr)) };
    block.except.iter().flatten().find_map(|text| match Network::parse(text) {
        None => Some(malformed(text)),
        Some(part) if whole.is_larger_than(&part) => None,
        Some(_) => Some(format!("except {text} is no part of {}: correct one of them", block.cidr)),
    })
}

/// The bits of an address that a network has in common, first to last.
struct Network {
    is_ipv4: bool,
    bits: u128,
    prefix: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let digits = prefix.bytes().all(|byte| byte.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
        let prefix: u32 = prefix.parse().ok().filter(|_| digits)?;
        let (is_ipv4, bits, length) = match address.parse().ok()? {
            IpAddr::V4(address) => (true, u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (false, address.to_bits(), 128),
        };
        (prefix <= length).then_some(Self { is_ipv4, bits, prefix })
    }

    fn is_larger_than(&self, part: &Self) -> bool {
        let shift = 128 - self.prefix;
        let same = (self.bits ^ part.bits).checked_shr(shift).unwrap_or_default() == 0;
        self.is_ipv4 == part.is_ipv4 && self.prefix < part.prefix && same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(cidr: &str, except: &[&str]) -> Option<String> {
        let except = Some(except.iter().map(|text| (*text).to_owned()).collect());
        block_problem(&IPBlock { cidr: cidr.to_owned(), except })
    }

    #[test]
    fn a_network_is_what_the_api_server_takes_for_one() {
        let right = ["0.0.0.0/0", "10.0.0.0/8", "10.1.2.3/32", "::/0", "fd00::/8", "2001:db8::1/128"];
        let wrong =
            ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/08", "10.0.0.0/+8", "fd00::/129", "example.com/8"];
        assert!(right.iter().all(|text| said(text, &[]).is_none()));
        assert!(wrong.iter().all(|text| said(text, &[]).is_some_and(|said| said.contains("is no network"))));
    }

    #[test]
    fn an_exception_is_a_part_and_not_all() {
        let cases = [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("0.0.0.0/0", "10.0.0.0/8", true),
            ("::/0", "fd00::/8", true),
            ("10.0.0.0/8", "10.0.0.0/8", false),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("10.0.0.0/8", "0.0.0.0/0", false),
            ("::/0", "10.0.0.0/8", false),
            ("10.0.0.0/8", "here", false),
        ];
        for (cidr, except, right) in cases {
            assert_eq!(said(cidr, &[except]).is_none(), right, "{cidr} except {except}");
        }
    }
}
