//! Decides, for one node, which of its pods are isolated and what each still admits. Pure; called by `enforcer`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicySpec};

use super::cidr::Cidr;
use super::ports::PortMatch;
use super::selector::matches;
use super::world::{PodView, World};
use super::{peers, ports};
use crate::config::Node;

/// What one isolated pod admits; everything else is dropped. Empty means nothing at all.
pub type Admitted = BTreeSet<(Cidr, PortMatch)>;

/// The isolated pods of one node by address. Pods that no policy selects are absent: they are open.
pub type NodeRules = BTreeMap<Ipv4Addr, Admitted>;

pub fn for_node(node: &Node, world: &World) -> NodeRules {
    let here = |pod: &&PodView| pod.node == node.name && node.pod_cidr.contains(pod.address);
    world.pods.iter().filter(here).filter_map(|pod| Some((pod.address, admitted(pod, world)?))).collect()
}

/// Nothing when no policy isolates the pod; otherwise the union over all that do.
fn admitted(pod: &PodView, world: &World) -> Option<Admitted> {
    let mut isolating = world.policies.iter().filter_map(|policy| isolates(policy, pod)).peekable();
    isolating.peek()?;
    let rules = isolating.flat_map(|spec| spec.ingress.iter().flatten());
    Some(rules.flat_map(|rule| openings(rule, pod, world)).collect())
}

fn isolates<'a>(policy: &'a NetworkPolicy, pod: &PodView) -> Option<&'a NetworkPolicySpec> {
    let spec = policy.spec.as_ref()?;
    // A policy lives in the namespace of the pods it selects, so its peers start from the pod's namespace too.
    let same_namespace = policy.metadata.namespace.as_deref() == Some(pod.namespace.as_str());
    let selected = spec.pod_selector.as_ref().is_none_or(|selector| matches(selector, &pod.labels));
    (same_namespace && selected && concerns_ingress(spec)).then_some(spec)
}

/// Unset policyTypes always include Ingress.
fn concerns_ingress(spec: &NetworkPolicySpec) -> bool {
    spec.policy_types.as_ref().is_none_or(|types| types.is_empty() || types.iter().any(|kind| kind == "Ingress"))
}

fn openings(rule: &NetworkPolicyIngressRule, pod: &PodView, world: &World) -> Vec<(Cidr, PortMatch)> {
    let sources = peers::resolve(rule.from.as_ref(), &pod.namespace, world);
    let ports = ports::resolve(rule.ports.as_ref(), &pod.ports);
    sources.into_iter().flat_map(|source| ports.iter().map(move |port| (source, *port))).collect()
}

/// What a policy asks for that this testbed does not enforce, in words for the log.
pub fn unenforced(policy: &NetworkPolicy) -> Vec<&'static str> {
    let Some(spec) = &policy.spec else { return Vec::new() };
    let egress = spec.egress.as_ref().is_some_and(|rules| !rules.is_empty())
        || spec.policy_types.iter().flatten().any(|kind| kind == "Egress");
    let rules = || spec.ingress.iter().flatten();
    let sctp =
        rules().flat_map(|rule| rule.ports.iter().flatten()).any(|port| port.protocol.as_deref() == Some("SCTP"));
    let blocks = rules().flat_map(|rule| rule.from.iter().flatten()).filter_map(|peer| peer.ip_block.as_ref());
    let ipv6 = blocks.into_iter().any(|block| block.cidr.contains(':'));
    let findings = [
        (egress, "egress rules are not enforced"),
        (sctp, "SCTP ports are not opened"),
        (ipv6, "IPv6 blocks are ignored"),
    ];
    findings.into_iter().filter_map(|(found, words)| found.then_some(words)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node() -> Node {
        Node { name: "node-1".into(), netns: "/run/netns/node-1".into(), pod_cidr: "10.200.1.0/24".parse().unwrap() }
    }

    fn pod(namespace: &str, app: &str, node: &str, address: &str) -> PodView {
        PodView {
            namespace: namespace.into(),
            labels: [("app".to_owned(), app.to_owned())].into(),
            node: node.into(),
            address: address.parse().unwrap(),
            ports: Vec::new(),
        }
    }

    fn policy(spec: Value) -> NetworkPolicy {
        let policy = json!({"metadata": {"name": "p", "namespace": "home"}, "spec": spec});
        serde_json::from_value(policy).unwrap()
    }

    /// What the pod `db` of namespace `home` on node-1 admits under these policies.
    fn database_admits(policies: Vec<Value>) -> Option<Vec<String>> {
        let world = World {
            pods: vec![
                pod("home", "db", "node-1", "10.200.1.2"),
                pod("home", "web", "node-2", "10.200.2.2"),
                pod("away", "db", "node-1", "10.200.1.3"),
            ],
            namespaces: [("home".to_owned(), [].into()), ("away".to_owned(), [].into())].into(),
            policies: policies.into_iter().map(policy).collect(),
        };
        let rules = for_node(&node(), &world);
        assert!(
            rules.keys().all(|address| *address == Ipv4Addr::new(10, 200, 1, 2)),
            "only the pod of this node and namespace"
        );
        let words = |(source, port): &(Cidr, PortMatch)| format!("{source}{}", port.arguments());
        rules.get(&Ipv4Addr::new(10, 200, 1, 2)).map(|admitted| admitted.iter().map(words).collect())
    }

    #[test]
    fn a_pod_that_no_policy_selects_is_open() {
        assert_eq!(database_admits(vec![]), None);
        assert_eq!(database_admits(vec![json!({"podSelector": {"matchLabels": {"app": "web"}}})]), None);
    }

    #[test]
    fn a_policy_without_ingress_rules_denies_everything() {
        assert_eq!(database_admits(vec![json!({"podSelector": {}})]), Some(vec![]));
        assert_eq!(
            database_admits(vec![json!({"podSelector": {}, "ingress": [], "policyTypes": ["Ingress"]})]),
            Some(vec![])
        );
    }

    #[test]
    fn an_empty_rule_admits_everything() {
        assert_eq!(database_admits(vec![json!({"podSelector": {}, "ingress": [{}]})]), Some(vec!["0.0.0.0/0".into()]));
    }

    #[test]
    fn an_egress_policy_does_not_isolate_for_ingress() {
        assert_eq!(database_admits(vec![json!({"podSelector": {}, "policyTypes": ["Egress"]})]), None);
        let unset_types = json!({"podSelector": {}, "egress": [{}]});
        assert_eq!(database_admits(vec![unset_types]), Some(vec![]));
    }

    #[test]
    fn several_policies_are_a_union() {
        let deny = json!({"podSelector": {}});
        let web = json!({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [
            {"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": 6379}, {"port": 16379}]}]});
        let outside = json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}]});
        let expected = ["10.200.2.2/32 -p tcp --dport 6379", "10.200.2.2/32 -p tcp --dport 16379", "192.0.2.0/24"];
        assert_eq!(database_admits(vec![deny, web, outside]).unwrap(), expected);
    }

    #[test]
    fn a_rule_whose_ports_the_pod_does_not_have_admits_nothing() {
        let named = json!({"podSelector": {}, "ingress": [{"ports": [{"port": "metrics"}]}]});
        assert_eq!(database_admits(vec![named]), Some(vec![]));
    }

    #[test]
    fn what_is_not_enforced_is_said() {
        let all = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [
            {"ports": [{"protocol": "SCTP"}], "from": [{"ipBlock": {"cidr": "fd00::/8"}}]}]});
        assert_eq!(unenforced(&policy(all)).len(), 3);
        assert!(unenforced(&policy(json!({"podSelector": {}, "ingress": [{}]}))).is_empty());
    }
}
