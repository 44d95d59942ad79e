//! The NetworkPolicy: clients and Prometheus may come from anywhere, the cluster bus is for this cluster's pods alone, and the
//! sidecar's port for nobody but the kubelet, whose probes no policy stops. Pure.

use crate::metadata;
use crate::validated::ValidatedCluster;
use api::names::port;
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub fn network_policy(cluster: &ValidatedCluster) -> NetworkPolicy {
    let own_pods =
        NetworkPolicyPeer { pod_selector: Some(metadata::selector(cluster)), ..NetworkPolicyPeer::default() };
    let metrics = cluster.exporter.as_ref().map(|_| allow(port::EXPORTER, None));
    let ingress = [allow(port::VALKEY, None), allow(port::BUS, Some(vec![own_pods]))].into_iter().chain(metrics);
    NetworkPolicy {
        metadata: metadata::object(cluster, cluster.name.clone()),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(metadata::selector(cluster)),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(ingress.collect()),
            egress: None,
        }),
    }
}

/// No peers means everybody.
fn allow(number: i32, from: Option<Vec<NetworkPolicyPeer>>) -> NetworkPolicyIngressRule {
    let port = NetworkPolicyPort {
        port: Some(IntOrString::Int(number)),
        protocol: Some("TCP".to_owned()),
        ..NetworkPolicyPort::default()
    };
    NetworkPolicyIngressRule { ports: Some(vec![port]), from }
}
