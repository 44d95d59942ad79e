//! Readiness in words: judges for `wait_for_list` and `wait_for_object` whose reasons tell which object lags and why. Pure.

use crate::verdict::Verdict;
use k8s_openapi::api::core::v1::{ContainerState, Node, Pod};
use kube::ResourceExt;

pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|(status, _)| status == "True") && pod.metadata.deletion_timestamp.is_none()
}

/// Met when exactly `expected` pods exist and all are Ready.
pub fn pods_ready(expected: usize) -> impl Fn(&[Pod]) -> Verdict<Vec<Pod>> {
    move |pods| {
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        if ready == expected && pods.len() == expected {
            return Verdict::Met(pods.to_vec());
        }
        let lagging = pods.iter().filter(|pod| !is_ready(pod)).map(describe_pod);
        let reasons: Vec<_> = std::iter::once(format!("{ready}/{expected} pods Ready")).chain(lagging).collect();
        Verdict::NotYet(reasons.join("; "))
    }
}

pub fn pod_ready(pod: Option<&Pod>) -> Verdict<Pod> {
    match pod {
        None => Verdict::not_yet("the pod does not exist"),
        Some(pod) if is_ready(pod) => Verdict::Met(pod.clone()),
        Some(pod) if phase(pod) == "Failed" => Verdict::Never(describe_pod(pod)),
        Some(pod) => Verdict::NotYet(describe_pod(pod)),
    }
}

/// `web-2: ContainerCreating (no node fits)`: the pod, its most telling state, and the cluster's explanation if it gave one.
pub fn describe_pod(pod: &Pod) -> String {
    let (state, explanation) = state(pod);
    let explained = if explanation.is_empty() { String::new() } else { format!(" ({explanation})") };
    format!("{}: {state}{explained}", pod.name_any())
}

fn state(pod: &Pod) -> (String, String) {
    if pod.metadata.deletion_timestamp.is_some() {
        return ("Terminating".to_owned(), String::new());
    }
    if let Some(state) = container_states(pod).find_map(troubled) {
        return state;
    }
    match condition(pod, "PodScheduled") {
        Some(("False", message)) => ("unscheduled".to_owned(), message.to_owned()),
        _ => {
            let unready = condition(pod, "Ready").map(|(_, message)| message.to_owned());
            (phase(pod).to_owned(), unready.unwrap_or_default())
        }
    }
}

fn container_states(pod: &Pod) -> impl Iterator<Item = &ContainerState> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    let main = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    init.iter().chain(main).filter_map(|container| container.state.as_ref())
}

fn troubled(state: &ContainerState) -> Option<(String, String)> {
    if let Some(waiting) = &state.waiting {
        return Some((waiting.reason.clone().unwrap_or_default(), waiting.message.clone().unwrap_or_default()));
    }
    let terminated = state.terminated.as_ref().filter(|terminated| terminated.exit_code != 0)?;
    Some((format!("exited with {}", terminated.exit_code), terminated.message.clone().unwrap_or_default()))
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("no phase yet")
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<(&'a str, &'a str)> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let found = conditions.iter().find(|condition| condition.type_ == kind)?;
    Some((&found.status, found.message.as_deref().unwrap_or_default()))
}

/// Ready, and no taint left over from a time when it was not: only then do new pods go there.
pub fn node_ready(node: Option<&Node>) -> Verdict<Node> {
    let Some(node) = node else { return Verdict::not_yet("the node does not exist") };
    match node_trouble(node) {
        None => Verdict::Met(node.clone()),
        Some(trouble) => Verdict::NotYet(trouble),
    }
}

pub fn nodes_ready(nodes: &[Node]) -> Verdict<Vec<Node>> {
    let troubles: Vec<_> = nodes.iter().filter_map(node_trouble).collect();
    match troubles.is_empty() && !nodes.is_empty() {
        true => Verdict::Met(nodes.to_vec()),
        false => Verdict::NotYet(format!("{} nodes; {}", nodes.len(), troubles.join("; "))),
    }
}

pub fn node_not_ready(node: Option<&Node>) -> Verdict<()> {
    let trouble = node.is_some_and(|node| ready_status(node) != "True");
    Verdict::when(trouble, || "the node is Ready".to_owned())
}

fn node_trouble(node: &Node) -> Option<String> {
    let status = ready_status(node);
    if status != "True" {
        return Some(format!("{}: Ready is {status}", node.name_any()));
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let leftover = taints.iter().find(|taint| taint.key.starts_with("node.kubernetes.io/"))?;
    Some(format!("{}: Ready but still tainted {}", node.name_any(), leftover.key))
}

fn ready_status(node: &Node) -> &str {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().find(|condition| condition.type_ == "Ready").map_or("unknown", |condition| &condition.status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, status: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap()
    }

    fn ready_pod(name: &str) -> Pod {
        pod(name, json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}))
    }

    fn node(ready: &str, taints: serde_json::Value) -> Node {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let value =
            json!({"metadata": {"name": "node-1"}, "spec": {"taints": taints}, "status": {"conditions": conditions}});
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_pod_that_lags_is_named_with_its_state() {
        let waiting = json!({"containerStatuses": [{
            "name": "echo", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        }]});
        let pods = [ready_pod("web-0"), ready_pod("web-1"), pod("web-2", waiting)];
        assert_eq!(pods_ready(3)(&pods), Verdict::not_yet("2/3 pods Ready; web-2: CrashLoopBackOff (back-off 10s)"));
    }

    #[test]
    fn an_unscheduled_pod_carries_the_schedulers_message() {
        let unscheduled = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "no node fits"}]});
        assert_eq!(describe_pod(&pod("web-2", unscheduled)), "web-2: unscheduled (no node fits)");
    }

    #[test]
    fn one_pod_too_many_is_not_ready_yet() {
        let pods = [ready_pod("web-0"), ready_pod("web-1")];
        assert!(matches!(pods_ready(1)(&pods), Verdict::NotYet(_)));
        assert!(matches!(pods_ready(2)(&pods), Verdict::Met(_)));
    }

    #[test]
    fn a_terminating_pod_is_not_ready() {
        let mut pod = ready_pod("web-0");
        pod.metadata =
            serde_json::from_value(json!({"name": "web-0", "deletionTimestamp": "2026-01-01T00:00:00Z"})).unwrap();
        assert!(!is_ready(&pod));
        assert_eq!(describe_pod(&pod), "web-0: Terminating");
    }

    #[test]
    fn a_failed_pod_is_hopeless() {
        assert!(matches!(pod_ready(Some(&pod("job", json!({"phase": "Failed"})))), Verdict::Never(_)));
    }

    #[test]
    fn a_node_is_ready_only_without_leftover_taints() {
        let tainted = node("True", json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]));
        assert!(matches!(node_ready(Some(&tainted)), Verdict::NotYet(reason) if reason.contains("unreachable")));
        assert!(matches!(node_ready(Some(&node("True", json!([])))), Verdict::Met(_)));
    }

    #[test]
    fn a_node_whose_kubelet_is_silent_counts_as_not_ready() {
        assert_eq!(node_not_ready(Some(&node("Unknown", json!([])))), Verdict::Met(()));
        assert!(matches!(node_not_ready(Some(&node("True", json!([])))), Verdict::NotYet(_)));
        assert!(matches!(node_not_ready(None), Verdict::NotYet(_)));
    }

    #[test]
    fn no_nodes_at_all_are_not_ready() {
        assert!(matches!(nodes_ready(&[]), Verdict::NotYet(_)));
    }
}
