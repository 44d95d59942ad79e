//! What enforcement needs to know of the cluster, reduced from the API's objects. Pure; built by `enforcer`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Container, Namespace, Pod, PodSpec};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::ports::Protocol;
use super::selector::Labels;

#[derive(Default)]
pub struct World {
    pub pods: Vec<PodView>,
    pub namespaces: BTreeMap<String, Labels>,
    pub policies: Vec<NetworkPolicy>,
}

/// A pod with an address of its own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodView {
    pub namespace: String,
    pub labels: Labels,
    pub node: String,
    pub address: Ipv4Addr,
    pub ports: Vec<NamedPort>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamedPort {
    pub name: String,
    pub protocol: Protocol,
    pub number: u16,
}

impl World {
    pub fn add_pod(&mut self, pod: &Pod) {
        self.pods.extend(PodView::of(pod));
    }

    pub fn add_namespace(&mut self, namespace: &Namespace) {
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        self.namespaces.insert(namespace.metadata.name.clone().unwrap_or_default(), labels);
    }
}

impl PodView {
    /// Nothing for pods that policies do not concern: in the host's network, without an address yet, or ended
    /// (their address may already belong to another pod).
    pub fn of(pod: &Pod) -> Option<Self> {
        let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
        let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        if ended || spec.host_network == Some(true) {
            return None;
        }
        let addresses = status.pod_ips.iter().flatten().map(|entry| entry.ip.as_str());
        let address = addresses.chain(status.pod_ip.as_deref()).find_map(|text| text.parse().ok())?;
        Some(Self {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            node: spec.node_name.clone().unwrap_or_default(),
            address,
            ports: named_ports(spec),
        })
    }
}

/// Ports of sidecars (init containers that keep running) count like those of ordinary containers.
fn named_ports(spec: &PodSpec) -> Vec<NamedPort> {
    let stays = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(stays);
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let name = port.name.clone()?;
            let protocol = Protocol::parse(port.protocol.as_deref())?;
            Some(NamedPort { name, protocol, number: u16::try_from(port.container_port).ok()? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn view(spec: Value, status: Value) -> Option<PodView> {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": status});
        PodView::of(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn pods_that_policies_do_not_concern_are_left_out() {
        let spec = json!({"containers": [], "nodeName": "node-1"});
        assert!(view(spec.clone(), json!({"podIP": "10.200.1.2"})).is_some());
        assert!(view(spec.clone(), json!({})).is_none());
        assert!(view(spec.clone(), json!({"podIP": "10.200.1.2", "phase": "Succeeded"})).is_none());
        assert!(view(spec, json!({"podIP": "10.200.1.2", "phase": "Failed"})).is_none());
        let on_host = json!({"containers": [], "hostNetwork": true});
        assert!(view(on_host, json!({"podIP": "10.200.1.2"})).is_none());
    }

    #[test]
    fn the_ipv4_address_of_a_dual_stack_pod_is_used() {
        let status = json!({"podIP": "fd00::5", "podIPs": [{"ip": "fd00::5"}, {"ip": "10.200.1.2"}]});
        assert_eq!(view(json!({"containers": []}), status).unwrap().address, Ipv4Addr::new(10, 200, 1, 2));
    }

    #[test]
    fn named_ports_come_from_containers_and_sidecars_but_not_from_ordinary_init_containers() {
        let port = |name: &str, number: u16| json!([{"name": name, "containerPort": number}]);
        let spec = json!({
            "containers": [{"name": "valkey", "ports": port("client", 6379)}],
            "initContainers": [
                {"name": "sidecar", "restartPolicy": "Always", "ports": port("health", 8080)},
                {"name": "prepare", "ports": port("gone", 1)},
            ],
        });
        let names: Vec<String> =
            view(spec, json!({"podIP": "10.200.1.2"})).unwrap().ports.into_iter().map(|port| port.name).collect();
        assert_eq!(names, ["client", "health"]);
    }
}
