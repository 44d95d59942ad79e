//! The inside of a testbed. `init` is process 1 of its PID namespace and does nothing but reap; the supervisor below it
//! boots the cluster and then obeys commands. When init dies, the kernel ends everything in the namespaces with it.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{WaitOptions, wait};
use serde::{Deserialize, Serialize};

use crate::command::run;
use crate::control::{self, NodeState, Request, Status};
use crate::journal::{self, Entry};
use crate::layout::{Node, Testbed};
use crate::supervisor::{Part, Supervisor};
use crate::{control_plane, dns, images, network, node};

/// What `up` hands to the boot beside `testbed.json`.
#[derive(Clone, Serialize, Deserialize)]
pub struct BootSettings {
    pub pause: images::Archive,
    pub cni_plugins: String,
}

/// Process 1: starts the supervisor and reaps every orphan until the supervisor ends.
pub fn init(name: &str) -> Result<()> {
    let supervisor = Command::new("/proc/self/exe").args(["--name", name, "supervise"]).spawn()?;
    let supervisor = i32::try_from(supervisor.id())?;
    while let Ok(Some((pid, _))) = wait(WaitOptions::empty()) {
        if pid.as_raw_nonzero().get() == supervisor {
            break;
        }
    }
    Err(anyhow!("the supervisor ended"))
}

/// Boots the cluster, then serves commands until it is killed.
pub fn supervise(name: &str) -> Result<()> {
    let testbed = Testbed::read(name)?;
    let dir = testbed.dir();
    let inside = Inside { testbed, supervisor: Supervisor::default(), settings: read_settings(name)? };
    if let Err(error) = inside.boot() {
        journal::write(&dir, &Entry::Failed(format!("{error:#}")))?;
        return Err(error);
    }
    journal::write(&dir, &Entry::Ready)?;
    let mut states = BTreeMap::new();
    control::serve(&dir, |request| inside.answer(&mut states, request))
}

fn read_settings(name: &str) -> Result<BootSettings> {
    let path = Testbed::read(name)?.dir().file("boot.json");
    serde_json::from_str(&fs::read_to_string(path)?).context("boot.json is damaged")
}

struct Inside {
    testbed: Testbed,
    supervisor: Supervisor,
    settings: BootSettings,
}

impl Inside {
    fn boot(&self) -> Result<()> {
        let start = Instant::now();
        let step = |what: &str| {
            journal::write(
                &self.testbed.dir(),
                &Entry::Step(format!("{what} ({:.1} s into the boot)", start.elapsed().as_secs_f64())),
            )
        };
        self.mounts()?;
        network::create(&self.testbed)?;
        step("network namespaces are made")?;
        control_plane::start_etcd(&self.testbed, &self.supervisor)?;
        control_plane::start_api_server(&self.testbed, &self.supervisor)?;
        self.each_node(|node| {
            self.start_runtime(node)?;
            images::import(&self.testbed.dir(), node, &self.settings.pause.path)
        })?;
        step("containerd runs on every node")?;
        self.await_api_server()?;
        step("the API server is ready")?;
        control_plane::start_controllers(&self.testbed, &self.supervisor)?;
        control_plane::start_dns(&self.testbed, &self.supervisor)?;
        self.each_node(|node| self.start_kubelet(node))?;
        self.apply_dns_service()?;
        self.start_agent()?;
        self.await_nodes()?;
        self.await_service_account()?;
        step("all nodes are Ready")?;
        self.await_dns()?;
        step("DNS answers")
    }

    /// Private stand-ins for the system folders that Kubernetes programs write to, whatever their flags say.
    fn mounts(&self) -> Result<()> {
        mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)?;
        fs::create_dir_all("/var/lib/cni")?;
        for folder in ["/run", "/var/log", "/var/lib/cni"] {
            mount("tmpfs", folder, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None)
                .with_context(|| format!("cannot mount over {folder}"))?;
        }
        fs::create_dir_all("/run/netns")?;
        Ok(())
    }

    /// The same work for all nodes at once.
    fn each_node(&self, work: impl Fn(&Node) -> Result<()> + Sync) -> Result<()> {
        thread::scope(|scope| {
            let running: Vec<_> = self.testbed.nodes.iter().map(|node| (node, scope.spawn(|| work(node)))).collect();
            running.into_iter().try_for_each(|(node, handle)| {
                handle
                    .join()
                    .map_err(|_| anyhow!("starting {} went wrong", node.name))?
                    .with_context(|| format!("{} does not start", node.name))
            })
        })
    }

    fn start_runtime(&self, node: &Node) -> Result<()> {
        let BootSettings { pause, cni_plugins } = &self.settings;
        node::start_containerd(&self.testbed, node, &self.supervisor, &pause.reference, cni_plugins)?;
        let socket = self.testbed.dir().containerd_socket(&node.name);
        let ctr = self.testbed.dir().binary("ctr");
        let check = || run(&ctr, &["--address", &socket, "version"]).map(drop);
        self.supervisor.wait_for(&format!("{}-containerd", node.name), 30, check)
    }

    fn start_kubelet(&self, node: &Node) -> Result<()> {
        node::start_kubelet(&self.testbed, node, &self.supervisor)?;
        node::start_proxy(&self.testbed, node, &self.supervisor)
    }

    fn await_api_server(&self) -> Result<()> {
        let dir = self.testbed.dir();
        self.supervisor
            .wait_for("kube-apiserver", 60, || control_plane::kubectl(&dir, &["get", "--raw", "/readyz"]).map(drop))
    }

    fn apply_dns_service(&self) -> Result<()> {
        let dir = self.testbed.dir();
        fs::write(dir.file("dns.json"), control_plane::dns_service(&self.testbed).to_string())?;
        // The server checks it; checking it here first would mean loading the server's whole schema.
        let apply = ["apply", "--server-side", "--validate=false", "-f", &dir.text("dns.json")];
        self.supervisor.wait_for("kube-apiserver", 30, || control_plane::kubectl(&dir, &apply).map(drop))
    }

    fn start_agent(&self) -> Result<()> {
        let dir = self.testbed.dir();
        fs::create_dir_all(dir.file("volumes"))?;
        let node = |node: &Node| serde_json::json!({"name": node.name, "netns": node.network_namespace(), "pod_cidr": node.pod_cidr});
        let nodes: Vec<_> = self.testbed.nodes.iter().map(node).collect();
        fs::write(
            dir.file("agent.json"),
            serde_json::json!({"volumes_dir": dir.file("volumes"), "nodes": nodes}).to_string(),
        )?;
        let flags = [
            format!("--kubeconfig={}", dir.text("pki/agent.kubeconfig")),
            format!("--config={}", dir.text("agent.json")),
        ];
        self.supervisor.start(Part {
            name: "agent".into(),
            network_namespace: None,
            command: std::iter::once(dir.binary("testbed-agent")).chain(flags).collect(),
            environment: vec![],
            log: dir.log("agent"),
        })
    }

    fn await_nodes(&self) -> Result<()> {
        let dir = self.testbed.dir();
        let first = self.testbed.nodes.first().map(|node| format!("{}-kubelet", node.name)).unwrap_or_default();
        let arguments = [
            "get",
            "nodes",
            "-o",
            "jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type==\"Ready\")].status} {end}",
        ];
        self.supervisor.wait_for(&first, 60, || {
            let states = control_plane::kubectl(&dir, &arguments)?;
            let ready = states.matches("=True").count();
            anyhow::ensure!(
                ready == self.testbed.nodes.len(),
                "{ready} of {} nodes are Ready: {states}",
                self.testbed.nodes.len()
            );
            Ok(())
        })
    }

    /// No pod is admitted to a namespace before the controller manager has made its service account.
    fn await_service_account(&self) -> Result<()> {
        let dir = self.testbed.dir();
        let check = || control_plane::kubectl(&dir, &["get", "serviceaccount", "default", "-n", "default"]).map(drop);
        self.supervisor.wait_for("kube-controller-manager", 30, check)
    }

    /// Asked through the Service, as pods do: this needs CoreDNS, the endpoint and a node's kube-proxy.
    fn await_dns(&self) -> Result<()> {
        let server = self.testbed.dns_service_ip();
        self.supervisor.wait_for("coredns", 30, || dns::resolve(server, "kubernetes.default.svc.cluster.local"))
    }

    /// The kube-proxy of this node is about to be out of the host's reach.
    fn lead_services_past(&self, name: &str, states: &BTreeMap<String, NodeState>) -> Result<()> {
        let runs = |node: &&Node| states.get(&node.name).is_none_or(|state| *state == NodeState::Running);
        let other = self.testbed.nodes.iter().filter(runs).find(|node| node.name != name);
        other.map_or(Ok(()), |node| network::services_through(&self.testbed, node))
    }

    fn answer(&self, states: &mut BTreeMap<String, NodeState>, request: Request) -> Result<Status> {
        match request {
            Request::Status => {}
            Request::StopNode(name) => {
                self.lead_services_past(&name, states)?;
                node::stop(&self.testbed, self.testbed.node(&name)?, &self.supervisor)?;
                states.insert(name, NodeState::Stopped);
            }
            Request::StartNode(name) => {
                let node = self.testbed.node(&name)?;
                network::attach(node)?;
                self.start_runtime(node)?;
                self.start_kubelet(node)?;
                states.insert(name, NodeState::Running);
            }
            Request::CutNode(name) => {
                self.lead_services_past(&name, states)?;
                network::detach(self.testbed.node(&name)?)?;
                states.insert(name, NodeState::Cut);
            }
            Request::HealNode(name) => {
                network::attach(self.testbed.node(&name)?)?;
                // A stopped node's cable is in again, but it stays stopped.
                states.entry(name).and_modify(|state| {
                    if *state == NodeState::Cut {
                        *state = NodeState::Running;
                    }
                });
            }
        }
        let state = |node: &Node| (node.name.clone(), states.get(&node.name).copied().unwrap_or_default());
        Ok(Status { parts: self.supervisor.status(), nodes: self.testbed.nodes.iter().map(state).collect() })
    }
}
