//! Probes: all of them ask the sidecar over HTTP. Pure.

use api::names::port;
use k8s_openapi::api::core::v1::{HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How often and how patiently.
pub struct Pace {
    pub period_seconds: i32,
    pub timeout_seconds: i32,
    pub failure_threshold: i32,
}

pub fn sidecar_answers(path: &str, pace: Pace) -> Probe {
    Probe {
        http_get: Some(get(path, port::HEALTH)),
        period_seconds: Some(pace.period_seconds),
        timeout_seconds: Some(pace.timeout_seconds),
        failure_threshold: Some(pace.failure_threshold),
        ..Probe::default()
    }
}

pub fn get(path: &str, port: i32) -> HTTPGetAction {
    HTTPGetAction { path: Some(path.to_owned()), port: IntOrString::Int(port), ..HTTPGetAction::default() }
}
