//! The Services: headless for the nodes, one for clients, and one for clients that only read. Pure.

use crate::metadata;
use crate::validated::ValidatedCluster;
use api::names::{self, label, port};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Gives every pod a name, ready or not: nodes that look for each other are not ready yet.
pub fn headless(cluster: &ValidatedCluster) -> Service {
    let mut ports = vec![tcp(port::VALKEY_NAME, port::VALKEY), tcp(port::BUS_NAME, port::BUS)];
    ports.extend(cluster.exporter.as_ref().map(|_| tcp(port::EXPORTER_NAME, port::EXPORTER)));
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        publish_not_ready_addresses: Some(true),
        ..selecting(cluster, ports)
    };
    service(metadata::object(cluster, names::headless_service(&cluster.name)), spec)
}

/// Leads to any ready node; cluster clients learn the rest from it.
pub fn client(cluster: &ValidatedCluster) -> Service {
    let spec = ServiceSpec { type_: Some("ClusterIP".to_owned()), ..selecting(cluster, vec![valkey_port()]) };
    service(metadata::annotated(cluster, cluster.name.clone(), &cluster.spec.service.annotations), spec)
}

/// Leads to replicas only, by the role label the operator keeps current.
pub fn read(cluster: &ValidatedCluster) -> Service {
    let mut spec = ServiceSpec { type_: Some("ClusterIP".to_owned()), ..selecting(cluster, vec![valkey_port()]) };
    spec.selector.get_or_insert_default().insert(label::ROLE.to_owned(), names::ROLE_REPLICA.to_owned());
    let annotations = &cluster.spec.read_service.annotations;
    service(metadata::annotated(cluster, names::read_service(&cluster.name), annotations), spec)
}

fn service(metadata: ObjectMeta, spec: ServiceSpec) -> Service {
    Service { metadata, spec: Some(spec), status: None }
}

fn selecting(cluster: &ValidatedCluster, ports: Vec<ServicePort>) -> ServiceSpec {
    ServiceSpec { selector: Some(names::selector(&cluster.name)), ports: Some(ports), ..ServiceSpec::default() }
}

fn valkey_port() -> ServicePort {
    tcp(port::VALKEY_NAME, port::VALKEY)
}

fn tcp(name: &str, number: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number,
        target_port: Some(IntOrString::Int(number)),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}
