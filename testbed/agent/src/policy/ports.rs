//! The `ports` of an ingress rule, resolved for one destination pod. Pure; called by `rules`.

use k8s_openapi::api::networking::v1::NetworkPolicyPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::world::NamedPort;

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// TCP when unset; nothing for SCTP, which the testbed does not filter by port.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            Some(_) => None,
        }
    }
}

/// One condition on the destination port.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum PortMatch {
    Everything,
    Whole(Protocol),
    Range(Protocol, u16, u16),
}

impl PortMatch {
    /// The condition as iptables arguments.
    pub fn arguments(self) -> String {
        let name = |protocol| if protocol == Protocol::Tcp { "tcp" } else { "udp" };
        match self {
            Self::Everything => String::new(),
            Self::Whole(protocol) => format!(" -p {}", name(protocol)),
            Self::Range(protocol, first, last) if first == last => format!(" -p {} --dport {first}", name(protocol)),
            Self::Range(protocol, first, last) => format!(" -p {} --dport {first}:{last}", name(protocol)),
        }
    }
}

/// No list, or an empty one, means all ports. An entry that matches nothing here (a name the pod does not have)
/// contributes nothing, so the result may be empty: then the rule admits no traffic to this pod.
pub fn resolve(ports: Option<&Vec<NetworkPolicyPort>>, named: &[NamedPort]) -> Vec<PortMatch> {
    match ports {
        Some(ports) if !ports.is_empty() => ports.iter().flat_map(|port| entry(port, named)).collect(),
        _ => vec![PortMatch::Everything],
    }
}

fn entry(port: &NetworkPolicyPort, named: &[NamedPort]) -> Vec<PortMatch> {
    let Some(protocol) = Protocol::parse(port.protocol.as_deref()) else {
        return Vec::new();
    };
    match &port.port {
        None => vec![PortMatch::Whole(protocol)],
        Some(IntOrString::Int(first)) => range(protocol, *first, port.end_port).into_iter().collect(),
        Some(IntOrString::String(name)) => named
            .iter()
            .filter(|candidate| candidate.name == *name && candidate.protocol == protocol)
            .map(|found| PortMatch::Range(protocol, found.number, found.number))
            .collect(),
    }
}

fn range(protocol: Protocol, first: i32, last: Option<i32>) -> Option<PortMatch> {
    let first = u16::try_from(first).ok()?;
    let last = last.map_or(Some(first), |last| u16::try_from(last).ok())?;
    (first <= last).then_some(PortMatch::Range(protocol, first, last))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn arguments(ports: Value) -> Vec<String> {
        let named = [
            NamedPort { name: "client".into(), protocol: Protocol::Tcp, number: 6379 },
            NamedPort { name: "dns".into(), protocol: Protocol::Udp, number: 53 },
        ];
        let ports: Option<Vec<NetworkPolicyPort>> = serde_json::from_value(ports).unwrap();
        resolve(ports.as_ref(), &named).into_iter().map(PortMatch::arguments).collect()
    }

    #[test]
    fn ports_mean_what_the_api_says() {
        let table = [
            ("no list", json!(null), vec![""]),
            ("empty list", json!([]), vec![""]),
            ("number, protocol defaults to TCP", json!([{"port": 80}]), vec![" -p tcp --dport 80"]),
            ("udp", json!([{"protocol": "UDP", "port": 53}]), vec![" -p udp --dport 53"]),
            ("protocol alone", json!([{"protocol": "UDP"}]), vec![" -p udp"]),
            ("empty entry is all of TCP", json!([{}]), vec![" -p tcp"]),
            ("range", json!([{"port": 1000, "endPort": 2000}]), vec![" -p tcp --dport 1000:2000"]),
            ("name", json!([{"port": "client"}]), vec![" -p tcp --dport 6379"]),
            ("name of another protocol", json!([{"port": "dns"}]), vec![]),
            ("unknown name", json!([{"port": "http"}]), vec![]),
            ("sctp", json!([{"protocol": "SCTP", "port": 80}]), vec![]),
            ("two entries", json!([{"port": 1}, {"port": 2}]), vec![" -p tcp --dport 1", " -p tcp --dport 2"]),
        ];
        for (case, ports, expected) in table {
            assert_eq!(arguments(ports), expected, "{case}");
        }
    }
}
