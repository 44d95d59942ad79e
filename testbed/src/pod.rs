//! Breaking a pod from outside.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::run;
use crate::control_plane::kubectl;
use crate::layout::Testbed;
use crate::progress::Progress;

/// What process 1 of a container can be sent from outside; from inside most of it would be ignored.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum Signal {
    #[default]
    Kill,
    /// It freezes.
    Stop,
    /// It goes on.
    Cont,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Signal::Kill => "SIGKILL",
            Signal::Stop => "SIGSTOP",
            Signal::Cont => "SIGCONT",
        }
    }
}

pub fn kill(testbed: &Testbed, pod: &str, container: Option<&str>, signal: Signal, progress: &Progress) -> Result<()> {
    let (namespace, name) =
        pod.split_once('/').with_context(|| format!("{pod:?} is not of the form <namespace>/<pod>"))?;
    let dir = testbed.dir();
    let object: Value = serde_json::from_str(&kubectl(&dir, &["get", "pod", "-n", namespace, name, "-o", "json"])?)?;
    let node =
        object.pointer("/spec/nodeName").and_then(Value::as_str).with_context(|| format!("{pod} is on no node yet"))?;
    let (container, id) =
        running_container(&object, container).with_context(|| format!("{pod} has no such container running"))?;
    let socket = dir.containerd_socket(node);
    run(
        &dir.binary("ctr"),
        &["--address", &socket, "--namespace", "k8s.io", "tasks", "kill", "--signal", signal.name(), &id],
    )?;
    progress.say(&format!("sent {} to the main process of {container} in {pod} on {node}", signal.name()));
    Ok(())
}

/// Name and id of the container; native sidecars are listed among the init containers.
fn running_container(pod: &Value, wanted: Option<&str>) -> Option<(String, String)> {
    let lists = ["/status/containerStatuses", "/status/initContainerStatuses"];
    let mut all = lists.iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten();
    let found = all.find(|status| {
        let fits = wanted.is_none_or(|wanted| status.get("name").and_then(Value::as_str) == Some(wanted));
        fits && status.pointer("/state/running").is_some()
    })?;
    let id = found.get("containerID")?.as_str()?.strip_prefix("containerd://")?;
    Some((found.get("name")?.as_str()?.to_owned(), id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_native_sidecar_is_found_by_name_and_a_container_that_has_ended_is_not() {
        let running = json!({"running": {}});
        let pod = json!({"status": {
            "containerStatuses": [{"name": "valkey", "containerID": "containerd://a", "state": running},
                                  {"name": "done", "containerID": "containerd://c", "state": {"terminated": {}}}],
            "initContainerStatuses": [{"name": "sidecar", "containerID": "containerd://b", "state": running}]}});
        assert_eq!(running_container(&pod, None), Some(("valkey".into(), "a".into())));
        assert_eq!(running_container(&pod, Some("sidecar")), Some(("sidecar".into(), "b".into())));
        assert_eq!(running_container(&pod, Some("done")), None);
    }
}
