//! A node: containerd, kubelet and kube-proxy in the node's network namespace, and the ways in which a node breaks.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use crate::cache::remove_dir;
use crate::cgroups;
use crate::layout::{Dir, Node, Testbed};
use crate::patience;
use crate::supervisor::{Part, Supervisor};

pub fn start_containerd(
    testbed: &Testbed,
    node: &Node,
    supervisor: &Supervisor,
    pause: &str,
    plugins: &str,
) -> Result<()> {
    let dir = testbed.dir();
    let home = dir.file(&node.name);
    fs::create_dir_all(home.join("cni"))?;
    fs::write(home.join("cni/10-testbed.conflist"), cni_config(testbed, node).to_string())?;
    fs::write(home.join("containerd.toml"), containerd_config(&dir, node, pause, plugins))?;
    let config = format!("--config={}/containerd.toml", home.display());
    supervisor.start(part(&dir, node, "containerd", vec![config]))
}

pub fn start_kubelet(testbed: &Testbed, node: &Node, supervisor: &Supervisor) -> Result<()> {
    let dir = testbed.dir();
    let home = dir.file(&node.name);
    fs::write(home.join("resolv.conf"), "")?;
    fs::write(home.join("kubelet.json"), kubelet_config(testbed, node).to_string())?;
    let flags = vec![
        format!("--config={}/kubelet.json", home.display()),
        format!("--kubeconfig={}", dir.text(&format!("pki/{}.kubeconfig", node.name))),
        format!("--hostname-override={}", node.name),
        format!("--node-ip={}", node.ip),
        format!("--root-dir={}/kubelet", home.display()),
        format!("--cert-dir={}/kubelet-pki", home.display()),
        format!("--node-labels=topology.kubernetes.io/zone={},topology.kubernetes.io/region=testbed", node.zone),
    ];
    supervisor.start(part(&dir, node, "kubelet", flags))
}

pub fn start_proxy(testbed: &Testbed, node: &Node, supervisor: &Supervisor) -> Result<()> {
    let dir = testbed.dir();
    let flags = vec![
        format!("--kubeconfig={}", dir.text("pki/kube-proxy.kubeconfig")),
        "--proxy-mode=iptables".into(),
        format!("--hostname-override={}", node.name),
        // What does not come from a pod of this node, such as the host, is masqueraded: answers must come back this way.
        "--detect-local-mode=InterfaceNamePrefix".into(),
        "--pod-interface-name-prefix=veth".into(),
        // The kernel's limits belong to the host.
        "--conntrack-max-per-core=0".into(),
        "--conntrack-tcp-timeout-established=0s".into(),
        "--conntrack-tcp-timeout-close-wait=0s".into(),
        "--iptables-min-sync-period=100ms".into(),
        "--oom-score-adj=0".into(),
    ];
    supervisor.start(part(&dir, node, "kube-proxy", flags))
}

/// A power cut: nothing of the node gets to say goodbye, and what a reboot would clear is cleared.
pub fn stop(testbed: &Testbed, node: &Node, supervisor: &Supervisor) -> Result<()> {
    let dir = testbed.dir();
    // The kubelet goes first: it would start again what dies after it.
    for name in ["kubelet", "kube-proxy", "containerd"] {
        supervisor.kill(&part_name(node, name))?;
    }
    kill_all(&dir, node)?;
    unmount_below(&dir.file(&node.name))?;
    for volatile in ["containerd-state", "runc", "ipam", "containerd.sock", "containerd.sock.ttrpc"] {
        let path = dir.file(&node.name).join(volatile);
        if path.is_dir() { remove_dir(&path)? } else { drop(fs::remove_file(&path)) }
    }
    Ok(())
}

/// Pods by their cgroup; shims, which live outside it, by the node's folder on their command line.
fn kill_all(dir: &Dir, node: &Node) -> Result<()> {
    let deadline = Instant::now() + patience::seconds(10);
    loop {
        let mut alive = cgroups::processes(&dir.cgroup(), &node.name)?;
        alive.extend(processes_mentioning(&format!("{}/", dir.text(&node.name))));
        if alive.is_empty() {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "processes of {} do not die: {alive:?}", node.name);
        for pid in alive.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn processes_mentioning(text: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = std::process::id();
    let mentions = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(|pid| u32::try_from(*pid) != Ok(own)).filter(mentions).collect()
}

fn unmount_below(folder: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("cannot read the mount table")?;
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(|point| point.replace("\\040", " "));
    let mut below: Vec<String> = points.filter(|point| Path::new(point).starts_with(folder)).collect();
    below.reverse();
    for point in below {
        unmount(&point, UnmountFlags::DETACH).with_context(|| format!("cannot unmount {point}"))?;
    }
    Ok(())
}

fn part_name(node: &Node, name: &str) -> String {
    format!("{}-{name}", node.name)
}

fn part(dir: &Dir, node: &Node, name: &str, flags: Vec<String>) -> Part {
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", dir.text("bin"));
    Part {
        name: part_name(node, name),
        network_namespace: Some(node.network_namespace()),
        command: std::iter::once(dir.binary(name)).chain(flags).collect(),
        environment: vec![("PATH".into(), path)],
        log: dir.log(&part_name(node, name)),
    }
}

/// `ptp` and not `bridge`: every packet between pods passes the node's FORWARD chain, where NetworkPolicies are enforced.
fn cni_config(testbed: &Testbed, node: &Node) -> serde_json::Value {
    let leases = testbed.dir().file(&node.name).join("ipam");
    serde_json::json!({"cniVersion": "0.4.0", "name": "testbed", "plugins": [
        {"type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": {
            "type": "host-local", "dataDir": leases, "ranges": [[{"subnet": node.pod_cidr}]], "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]})
}

fn containerd_config(dir: &Dir, node: &Node, pause: &str, plugins: &str) -> String {
    let home = dir.text(&node.name);
    format!(
        r#"version = 2
root = "{home}/containerd"
state = "{home}/containerd-state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{home}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{home}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Lowering a process' OOM score takes a capability that this machine may lack.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{home}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{home}/runc"
SystemdCgroup = false
"#
    )
}

fn kubelet_config(testbed: &Testbed, node: &Node) -> serde_json::Value {
    let dir = testbed.dir();
    let home = dir.text(&node.name);
    serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {"x509": {"clientCAFile": dir.text("pki/ca.crt")}, "webhook": {"enabled": true}, "anonymous": {"enabled": false}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": dir.text(&format!("pki/{}-kubelet-server.crt", node.name)),
        "tlsPrivateKeyFile": dir.text(&format!("pki/{}-kubelet-server.key", node.name)),
        "address": node.ip.to_string(),
        "clusterDomain": "cluster.local", "clusterDNS": [testbed.dns_service_ip().to_string()],
        "resolvConf": format!("{home}/resolv.conf"),
        "containerRuntimeEndpoint": format!("unix://{}", dir.containerd_socket(&node.name)),
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{}/{}", dir.cgroup(), node.name), "failCgroupV1": false,
        "podLogsDir": format!("{home}/pod-logs"), "volumePluginDir": format!("{home}/volume-plugins"),
        "nodeLeaseDurationSeconds": patience::seconds(8).as_secs(),
        // Also how long a kubelet waits for the answer to a heartbeat.
        "nodeStatusUpdateFrequency": format!("{}s", patience::seconds(3).as_secs()),
        // The nodes share one disk with everything else on the machine: its fullness is no reason to evict.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "failSwapOn": false, "oomScoreAdj": 0, "serializeImagePulls": false, "registryPullQPS": 0, "eventRecordQPS": 0,
    })
}
