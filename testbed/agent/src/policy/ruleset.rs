//! A node's rules as input for `iptables-restore --noflush`, and the reading of what is loaded now. Pure.
//!
//! FORWARD jumps first of all to one entry chain; that dispatches isolated pods to a chain named after its own
//! content, so pods that admit the same traffic share one. Admitted packets RETURN instead of being accepted:
//! kube-proxy's rules and those with which the driver cuts a node off still see them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::cidr::Cidr;
use super::rules::{Admitted, NodeRules};

const ENTRY: &str = "TESTBED-INGRESS";
/// With 16 hexadecimal digits behind it, this is exactly the longest name iptables takes.
const POD_CHAIN_PREFIX: &str = "TESTBED-POD-";
const REVISION_PREFIX: &str = "testbed-revision-";

/// What is in a node's filter table now, as far as it concerns us.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Loaded {
    pub revision: Option<String>,
    jumps: usize,
    jump_is_first: bool,
    pod_chains: BTreeSet<String>,
}

impl Loaded {
    /// Reads the output of `iptables-save -t filter`.
    pub fn parse(saved: &str) -> Self {
        let jump = format!("-A FORWARD -j {ENTRY}");
        let forward: Vec<&str> = saved.lines().filter(|line| line.starts_with("-A FORWARD ")).collect();
        let chains = saved.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
        let revision = saved.split(REVISION_PREFIX).nth(1).and_then(|rest| rest.split(['"', ' ', '\n']).next());
        Self {
            revision: revision.map(str::to_owned),
            jumps: forward.iter().filter(|line| **line == jump).count(),
            jump_is_first: forward.first() == Some(&jump.as_str()),
            pod_chains: chains.filter(|name| name.starts_with(POD_CHAIN_PREFIX)).map(str::to_owned).collect(),
        }
    }

    /// Whether the node already enforces the rules of that revision.
    pub fn enforces(&self, revision: &str) -> bool {
        self.revision.as_deref() == Some(revision) && self.jump_is_first
    }
}

/// A name for the content of a node's rules.
pub fn revision(rules: &NodeRules) -> String {
    let content: Vec<_> = rules.iter().map(|(address, admitted)| (address, chain_name(admitted))).collect();
    digest(&content)
}

/// The complete input that brings a node from `loaded` to `rules` in one transaction.
pub fn render(rules: &NodeRules, loaded: &Loaded) -> String {
    let chains = chains(rules);
    let stale: Vec<&String> = loaded.pod_chains.iter().filter(|name| !chains.contains_key(*name)).collect();
    let mut text = format!("*filter\n:{ENTRY} - [0:0]\n");
    // Naming a chain in the header empties it, also a stale one, which must be empty to be deleted below.
    for name in chains.keys().chain(stale.iter().copied()) {
        let _ = writeln!(text, ":{name} - [0:0]");
    }
    text.push_str(&jump(loaded));
    text.push_str(&entry(rules));
    chains.iter().for_each(|(name, admitted)| text.push_str(&pod_chain(name, admitted)));
    for name in stale {
        let _ = writeln!(text, "-X {name}");
    }
    text + "COMMIT\n"
}

/// Ours must be first: kube-proxy puts its own jump in front when it starts, and that one accepts.
fn jump(loaded: &Loaded) -> String {
    if loaded.jump_is_first && loaded.jumps == 1 {
        return String::new();
    }
    let removals = format!("-D FORWARD -j {ENTRY}\n").repeat(loaded.jumps);
    format!("{removals}-I FORWARD 1 -j {ENTRY}\n")
}

fn entry(rules: &NodeRules) -> String {
    let mut text = format!("-A {ENTRY} -m comment --comment {REVISION_PREFIX}{}\n", revision(rules));
    let _ = writeln!(text, "-A {ENTRY} -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN");
    for (address, admitted) in rules {
        // A pod can always reach itself, also through a Service.
        let _ = writeln!(text, "-A {ENTRY} -s {address}/32 -d {address}/32 -j RETURN");
        let _ = writeln!(text, "-A {ENTRY} -d {address}/32 -j {}", chain_name(admitted));
    }
    text
}

fn pod_chain(name: &str, admitted: &Admitted) -> String {
    let mut text = String::new();
    for (source, port) in admitted {
        let source = if *source == Cidr::EVERYTHING { String::new() } else { format!(" -s {source}") };
        let _ = writeln!(text, "-A {name}{source}{} -j RETURN", port.arguments());
    }
    let _ = writeln!(text, "-A {name} -j DROP");
    text
}

fn chains(rules: &NodeRules) -> BTreeMap<String, &Admitted> {
    rules.values().map(|admitted| (chain_name(admitted), admitted)).collect()
}

fn chain_name(admitted: &Admitted) -> String {
    format!("{POD_CHAIN_PREFIX}{}", digest(&pod_chain("", admitted)))
}

/// Keyless, so the same content has the same name after a restart of the agent.
fn digest(content: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::policy::ports::{PortMatch, Protocol};

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 200, 1, last)
    }

    fn valkey_port() -> Admitted {
        [(Cidr::from(address(9)), PortMatch::Range(Protocol::Tcp, 6379, 6379))].into()
    }

    #[test]
    fn the_text_is_complete_and_in_order() {
        let admitted = valkey_port();
        let name = chain_name(&admitted);
        let rules = NodeRules::from([(address(2), admitted)]);
        let expected = [
            "*filter".to_owned(),
            ":TESTBED-INGRESS - [0:0]".to_owned(),
            format!(":{name} - [0:0]"),
            "-I FORWARD 1 -j TESTBED-INGRESS".to_owned(),
            format!("-A TESTBED-INGRESS -m comment --comment testbed-revision-{}", revision(&rules)),
            "-A TESTBED-INGRESS -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN".to_owned(),
            "-A TESTBED-INGRESS -s 10.200.1.2/32 -d 10.200.1.2/32 -j RETURN".to_owned(),
            format!("-A TESTBED-INGRESS -d 10.200.1.2/32 -j {name}"),
            format!("-A {name} -s 10.200.1.9/32 -p tcp --dport 6379 -j RETURN"),
            format!("-A {name} -j DROP"),
            "COMMIT".to_owned(),
        ];
        assert_eq!(render(&rules, &Loaded::default()).lines().collect::<Vec<_>>(), expected);
        assert!(name.len() <= 28, "iptables takes no longer chain name than 28");
    }

    #[test]
    fn pods_that_admit_the_same_share_a_chain() {
        let rules =
            NodeRules::from([(address(2), valkey_port()), (address(3), valkey_port()), (address(4), [].into())]);
        assert_eq!(chains(&rules).len(), 2);
    }

    #[test]
    fn the_revision_changes_with_addresses_and_with_what_is_admitted() {
        let one = NodeRules::from([(address(2), valkey_port())]);
        assert_eq!(revision(&one), revision(&one.clone()));
        assert_ne!(revision(&one), revision(&NodeRules::from([(address(3), valkey_port())])));
        assert_ne!(revision(&one), revision(&NodeRules::from([(address(2), [].into())])));
    }

    #[test]
    fn what_is_loaded_is_read_back() {
        let saved = "*filter\n:FORWARD ACCEPT [0:0]\n:TESTBED-INGRESS - [0:0]\n:TESTBED-POD-00 - [0:0]\n\
            -A FORWARD -j TESTBED-INGRESS\n-A FORWARD -j KUBE-FORWARD\n\
            -A TESTBED-INGRESS -m comment --comment testbed-revision-abc\nCOMMIT\n";
        let loaded = Loaded::parse(saved);
        assert!(loaded.enforces("abc") && !loaded.enforces("abd"));
        assert_eq!(loaded.pod_chains, BTreeSet::from(["TESTBED-POD-00".to_owned()]));
        assert!(!render(&NodeRules::new(), &loaded).contains("FORWARD"), "the jump is in place");
        assert!(render(&NodeRules::new(), &loaded).ends_with("-X TESTBED-POD-00\nCOMMIT\n"), "stale chains go");
    }

    #[test]
    fn a_jump_that_is_no_longer_first_is_moved_to_the_front() {
        let loaded = Loaded::parse("-A FORWARD -j KUBE-FORWARD\n-A FORWARD -j TESTBED-INGRESS\n");
        assert!(!loaded.enforces("abc"));
        let text = render(&NodeRules::new(), &loaded);
        assert!(text.contains("-D FORWARD -j TESTBED-INGRESS\n-I FORWARD 1 -j TESTBED-INGRESS\n"), "{text}");
    }
}
