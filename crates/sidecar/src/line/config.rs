//! Who this sidecar is on the line and whom it dials, from the settings and the pod. Pure.

use crate::{arguments::PodArguments, version::VERSION};
use api::node_settings::NodeSettings;
use link::contract::Sender;
use pki::{InvalidSpiffeId, SpiffeId, identity::Naming};
use workload_api::{Endpoint, InvalidEndpoint};

#[derive(Clone, Debug, PartialEq)]
pub struct LineConfig {
    pub addresses: Vec<String>,
    pub operator: SpiffeId,
    pub own: SpiffeId,
    /// Where the certificate comes from, if not from the mounted Secret.
    pub workload_api: Option<Endpoint>,
    pub sender: Sender,
}

impl LineConfig {
    /// Why there can be no line, in words.
    pub fn of(settings: Option<&NodeSettings>, pod: &PodArguments) -> Result<Self, String> {
        let settings = settings.ok_or("waiting for the settings")?;
        let line = settings.line.as_ref().ok_or("the settings name no operator: this sidecar works alone")?;
        let cluster_uid = settings.cluster_uid.as_ref().ok_or("clusterUid is missing in the settings")?;
        let pod_uid = pod.pod_uid.as_ref().ok_or("the pod's uid is not known: set POD_UID or --pod-uid")?;
        if line.addresses.is_empty() {
            return Err("line.addresses in the settings is empty: the operator has to name at least one".into());
        }
        let operator = line.operator_id.parse();
        let operator = operator.map_err(|error: InvalidSpiffeId| {
            format!("line.operatorId \"{}\" in the settings: {error}", line.operator_id)
        })?;
        let own = Naming::of_operator(&operator).sidecar(&settings.namespace, &settings.cluster);
        let own = own.map_err(|error| format!("this cluster can have no identity: {error}"))?;
        let sender = Sender {
            namespace: settings.namespace.clone(),
            cluster: settings.cluster.clone(),
            cluster_uid: cluster_uid.clone(),
            pod: pod.pod_name.clone(),
            pod_uid: pod_uid.clone(),
            sidecar_version: VERSION.to_owned(),
        };
        let workload_api = line.workload_api_socket.as_ref().map(|text| text.parse()).transpose();
        let workload_api = workload_api
            .map_err(|error: InvalidEndpoint| format!("line.workloadApiSocket in the settings: {error}"))?;
        Ok(Self { addresses: line.addresses.clone(), operator, own, workload_api, sender })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::wanted::tests;
    use api::node_settings::LineSettings;

    fn settings(operator_id: &str) -> NodeSettings {
        let line = LineSettings {
            addresses: vec!["operator:8443".into()],
            operator_id: operator_id.into(),
            workload_api_socket: None,
        };
        NodeSettings { cluster_uid: Some("uid".into()), line: Some(line), ..tests::settings(&[]) }
    }

    fn pod() -> PodArguments {
        PodArguments { pod_uid: Some("pod-uid".into()), ..tests::pod() }
    }

    #[test]
    fn everything_comes_from_the_settings_and_the_pod() {
        let config = LineConfig::of(Some(&settings("spiffe://system/valkey-operator")), &pod()).unwrap();
        assert_eq!(config.operator.to_string(), "spiffe://system/valkey-operator");
        assert_eq!((config.sender.pod.as_str(), config.sender.cluster_uid.as_str()), ("poc-0", "uid"));
        assert_eq!(config.own, pki::identity::sidecar("default", "poc").unwrap());
    }

    #[test]
    fn the_certificate_comes_from_a_workload_api_where_the_settings_name_one() {
        let mut whole = settings("spiffe://example.org/ns/system/valkey-operator");
        whole.line.as_mut().unwrap().workload_api_socket = Some("unix:///run/spire/agent.sock".into());
        let config = LineConfig::of(Some(&whole), &pod()).unwrap();
        assert_eq!(config.workload_api, Some(Endpoint::Unix("/run/spire/agent.sock".into())));
        assert_eq!(config.own.to_string(), "spiffe://example.org/ns/default/valkeycluster/poc/sidecar");
        whole.line.as_mut().unwrap().workload_api_socket = Some("agent.sock".into());
        assert!(LineConfig::of(Some(&whole), &pod()).unwrap_err().contains("line.workloadApiSocket"));
    }

    #[test]
    fn each_missing_part_is_named() {
        let whole = settings("spiffe://system/valkey-operator");
        let of = |settings: NodeSettings, pod: &PodArguments| LineConfig::of(Some(&settings), pod).unwrap_err();
        assert!(of(NodeSettings { line: None, ..whole.clone() }, &pod()).contains("works alone"));
        assert!(of(NodeSettings { cluster_uid: None, ..whole.clone() }, &pod()).contains("clusterUid"));
        assert!(of(whole, &tests::pod()).contains("POD_UID"));
        assert!(of(settings("valkey-operator"), &pod()).contains("line.operatorId"));
        assert!(LineConfig::of(None, &pod()).is_err());
    }
}
