//! A container's main process from outside of it: signals that nobody inside could send, and the memory it takes. IO on this machine's
//! `/proc`, so only where the nodes are on this machine.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use std::{fs, process::Command};

/// `VmRSS` of the main process of a running container.
pub fn resident_kibibytes(pod: &Pod, container: &str) -> Result<u64> {
    let pid = pid_of(pod, container)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).with_context(|| format!("read about {pid}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("a process has a VmRSS")?;
    line.trim().trim_end_matches(" kB").parse().with_context(|| format!("VmRSS is {line:?}"))
}

/// Sends a signal such as `STOP` to the main process of a running container.
pub fn signal(pod: &Pod, container: &str, signal: &str) -> Result<()> {
    let pid = pid_of(pod, container)?;
    let status = Command::new("kill").args([format!("-{signal}"), pid.clone()]).status().context("run kill")?;
    ensure!(status.success(), "kill -{signal} {pid} ended with {status}");
    Ok(())
}

/// False too for a container that never ran.
pub fn is_running(pod: &Pod, container: &str) -> bool {
    pid_of(pod, container).is_ok()
}

/// What the kernel holds a running container to, in bytes.
pub fn memory_limit(pod: &Pod, container: &str) -> Result<u64> {
    let pid = pid_of(pod, container)?;
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).with_context(|| format!("read about {pid}"))?;
    let file = memory_limit_file(&cgroups).with_context(|| format!("{pid} is in no cgroup: {cgroups}"))?;
    let text = fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
    text.trim().parse().with_context(|| format!("{file} says {text:?}"))
}

/// Where version 1 of cgroups has the memory controller, version 2 has none, also when both are mounted.
fn memory_limit_file(cgroups: &str) -> Option<String> {
    let version1 = cgroups.lines().find_map(|line| line.split_once(":memory:"));
    let version2 = cgroups.lines().find_map(|line| line.strip_prefix("0::"));
    let in_version1 = version1.map(|(_, path)| format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"));
    in_version1.or_else(|| version2.map(|path| format!("/sys/fs/cgroup{path}/memory.max")))
}

fn pid_of(pod: &Pod, container: &str) -> Result<String> {
    let id = container_id(pod, container).with_context(|| format!("{container} is not running"))?;
    main_process(&id).with_context(|| format!("no process of container {id} on this machine"))
}

fn container_id(pod: &Pod, container: &str) -> Option<String> {
    let status = container_statuses(pod).find(|status| status.name == container)?;
    Some(status.container_id.as_deref()?.strip_prefix("containerd://")?.to_owned())
}

/// Of native sidecars too.
pub fn container_statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    let main = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    init.iter().chain(main)
}

/// The lowest pid in the container's cgroup: all others came after it.
fn main_process(container_id: &str) -> Option<String> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    let belongs = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|cgroups| cgroups.contains(container_id))
    };
    pids.filter(belongs).min().map(|pid| pid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_limit_is_read_where_the_controller_is() {
        let (version1, version2) = ("9:pids:/a/b\n4:memory:/a/b\n", "0::/a/b\n");
        let hybrid = [version1, version2].concat();
        let (old, new) = ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "/sys/fs/cgroup/a/b/memory.max");
        assert_eq!(memory_limit_file(version1).as_deref(), Some(old));
        assert_eq!(memory_limit_file(&hybrid).as_deref(), Some(old));
        assert_eq!(memory_limit_file(version2).as_deref(), Some(new));
        assert_eq!(memory_limit_file(""), None);
    }
}
