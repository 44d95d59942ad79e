//! The NetworkPolicy: who may come to the client port and to the exporter's is said in the spec, the cluster bus is for this cluster's
//! pods alone, and the sidecar's port for nobody but the kubelet, whose probes no policy stops. Pure.

use crate::metadata;
use crate::validated::ValidatedCluster;
use api::names::port;
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// None: the spec wants none.
pub fn network_policy(cluster: &ValidatedCluster) -> Option<NetworkPolicy> {
    let wanted = Some(&cluster.spec.network_policy).filter(|policy| policy.enabled)?;
    let metrics = cluster.exporter.as_ref().and_then(|_| allow(port::EXPORTER, wanted.metrics_from.clone()));
    let bus = allow(port::BUS, Some(vec![own_pods(cluster)]));
    let ingress = allow(port::VALKEY, clients(cluster)).into_iter().chain(bus).chain(metrics);
    Some(NetworkPolicy {
        metadata: metadata::object(cluster, cluster.name.clone()),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(metadata::selector(cluster)),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(ingress.collect()),
            egress: None,
        }),
    })
}

/// The cluster's own pods too: replicas copy over the client port, and sidecars ask there before a Valkey starts and when one hands over.
fn clients(cluster: &ValidatedCluster) -> Option<Vec<NetworkPolicyPeer>> {
    let from = cluster.spec.network_policy.from.as_ref()?;
    Some(std::iter::once(own_pods(cluster)).chain(from.iter().cloned()).collect())
}

fn own_pods(cluster: &ValidatedCluster) -> NetworkPolicyPeer {
    NetworkPolicyPeer { pod_selector: Some(metadata::selector(cluster)), ..NetworkPolicyPeer::default() }
}

/// No peers means everybody. To Kubernetes an empty list means that too, so nobody is no rule.
fn allow(number: i32, from: Option<Vec<NetworkPolicyPeer>>) -> Option<NetworkPolicyIngressRule> {
    let port = NetworkPolicyPort {
        port: Some(IntOrString::Int(number)),
        protocol: Some("TCP".to_owned()),
        ..NetworkPolicyPort::default()
    };
    let nobody = from.as_ref().is_some_and(Vec::is_empty);
    (!nobody).then(|| NetworkPolicyIngressRule { ports: Some(vec![port]), from })
}
