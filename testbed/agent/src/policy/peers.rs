//! The `from` of an ingress rule, resolved to source ranges. Pure; called by `rules`.

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicyPeer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::cidr::Cidr;
use super::selector::matches;
use super::world::World;

/// Sources as a set of ranges; no list, or an empty one, means every source.
pub fn resolve(from: Option<&Vec<NetworkPolicyPeer>>, policy_namespace: &str, world: &World) -> BTreeSet<Cidr> {
    match from {
        Some(peers) if !peers.is_empty() => {
            peers.iter().flat_map(|peer| sources(peer, policy_namespace, world)).collect()
        }
        _ => BTreeSet::from([Cidr::EVERYTHING]),
    }
}

fn sources(peer: &NetworkPolicyPeer, policy_namespace: &str, world: &World) -> Vec<Cidr> {
    match &peer.ip_block {
        Some(block) => block_ranges(block),
        None => pod_addresses(peer, policy_namespace, world),
    }
}

/// An IPv6 block has nothing to say about the testbed's IPv4 pods. An unreadable exception empties the block:
/// of the two ways to be wrong, admitting too little is the one a test notices.
fn block_ranges(block: &IPBlock) -> Vec<Cidr> {
    let holes: Result<Vec<Cidr>, _> = block.except.iter().flatten().map(|hole| hole.parse()).collect();
    match (block.cidr.parse::<Cidr>(), holes) {
        (Ok(whole), Ok(holes)) => whole.without(&holes),
        _ => Vec::new(),
    }
}

fn pod_addresses(peer: &NetworkPolicyPeer, policy_namespace: &str, world: &World) -> Vec<Cidr> {
    let in_scope = |namespace: &str| match &peer.namespace_selector {
        None => namespace == policy_namespace,
        Some(selector) => world.namespaces.get(namespace).is_some_and(|labels| matches(selector, labels)),
    };
    let everything = LabelSelector::default();
    let pod_selector = peer.pod_selector.as_ref().unwrap_or(&everything);
    let chosen = world.pods.iter().filter(|pod| in_scope(&pod.namespace) && matches(pod_selector, &pod.labels));
    chosen.map(|pod| Cidr::from(pod.address)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::policy::world::PodView;

    fn pod(namespace: &str, app: &str, last: u8) -> PodView {
        PodView {
            namespace: namespace.into(),
            labels: [("app".to_owned(), app.to_owned())].into(),
            node: "node-1".into(),
            address: [10, 200, 1, last].into(),
            ports: Vec::new(),
        }
    }

    fn world() -> World {
        World {
            pods: vec![pod("home", "web", 1), pod("home", "db", 2), pod("away", "web", 3), pod("away", "db", 4)],
            namespaces: [
                ("home".to_owned(), [].into()),
                ("away".to_owned(), [("team".to_owned(), "b".to_owned())].into()),
            ]
            .into(),
            policies: Vec::new(),
        }
    }

    fn resolved(from: Value) -> Vec<String> {
        let from: Option<Vec<NetworkPolicyPeer>> = serde_json::from_value(from).unwrap();
        resolve(from.as_ref(), "home", &world()).iter().map(Cidr::to_string).collect()
    }

    #[test]
    fn peers_mean_what_the_api_says() {
        let web = json!({"matchLabels": {"app": "web"}});
        let team = json!({"matchLabels": {"team": "b"}});
        let table = [
            ("no list", json!(null), vec!["0.0.0.0/0"]),
            ("empty list", json!([]), vec!["0.0.0.0/0"]),
            ("pods: own namespace only", json!([{"podSelector": web}]), vec!["10.200.1.1/32"]),
            ("all pods of the own namespace", json!([{"podSelector": {}}]), vec!["10.200.1.1/32", "10.200.1.2/32"]),
            (
                "namespaces: all their pods",
                json!([{"namespaceSelector": team}]),
                vec!["10.200.1.3/32", "10.200.1.4/32"],
            ),
            ("both in one peer: and", json!([{"namespaceSelector": team, "podSelector": web}]), vec!["10.200.1.3/32"]),
            (
                "two peers: or",
                json!([{"namespaceSelector": team}, {"podSelector": web}]),
                vec!["10.200.1.1/32", "10.200.1.3/32", "10.200.1.4/32"],
            ),
            (
                "every namespace",
                json!([{"namespaceSelector": {}, "podSelector": web}]),
                vec!["10.200.1.1/32", "10.200.1.3/32"],
            ),
            ("nobody", json!([{"podSelector": {"matchLabels": {"app": "none"}}}]), vec![]),
            ("block", json!([{"ipBlock": {"cidr": "192.168.0.0/16"}}]), vec!["192.168.0.0/16"]),
            (
                "block with exception",
                json!([{"ipBlock": {"cidr": "10.0.0.0/30", "except": ["10.0.0.0/31"]}}]),
                vec!["10.0.0.2/31"],
            ),
            ("IPv6 block", json!([{"ipBlock": {"cidr": "fd00::/8"}}]), vec![]),
        ];
        for (case, from, expected) in table {
            assert_eq!(resolved(from), expected, "{case}");
        }
    }
}
