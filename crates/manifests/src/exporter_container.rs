//! The container `exporter`: Valkey's metrics for Prometheus. Pure.

use crate::validated::Exporter;
use crate::valkey_container::{requirements, tcp};
use crate::{probe, security};
use api::names::{container, port};
use k8s_openapi::api::core::v1::{Container, EnvVar, Probe, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

pub fn container(exporter: &Exporter) -> Container {
    Container {
        name: container::EXPORTER.to_owned(),
        image: Some(exporter.image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        env: Some(vec![
            variable("REDIS_ADDR", format!("redis://localhost:{}", port::VALKEY)),
            variable("REDIS_EXPORTER_WEB_LISTEN_ADDRESS", format!(":{}", port::EXPORTER)),
        ]),
        ports: Some(vec![tcp(port::EXPORTER_NAME, port::EXPORTER)]),
        resources: Some(requirements(&exporter.resources).unwrap_or_else(default_resources)),
        // No readiness probe: missing metrics are no reason to take a node out of service.
        liveness_probe: Some(answers()),
        security_context: Some(security::container()),
        ..Container::default()
    }
}

fn variable(name: &str, value: String) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value), ..EnvVar::default() }
}

fn answers() -> Probe {
    Probe {
        http_get: Some(probe::get("/health", port::EXPORTER)),
        period_seconds: Some(30),
        timeout_seconds: Some(5),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}

fn default_resources() -> ResourceRequirements {
    let entry = |name: &str, quantity: &str| (name.to_owned(), Quantity(quantity.to_owned()));
    ResourceRequirements {
        requests: Some([entry("cpu", "10m"), entry("memory", "32Mi")].into()),
        limits: Some([entry("memory", "128Mi")].into()),
        claims: None,
    }
}
