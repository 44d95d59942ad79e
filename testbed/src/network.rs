//! The network of a testbed, made inside its mount namespace: one network namespace for the control plane, which holds
//! the bridge, and one per node. A link joins the host to the bridge, so that tests reach the API server, pods and Services.
//! All of it vanishes with the namespaces.

use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{finish, ip};
use crate::layout::{Node, Testbed};

pub const CONTROL_PLANE: &str = "control-plane";

pub fn create(testbed: &Testbed) -> Result<()> {
    control_plane(testbed).context("cannot make the control plane's network")?;
    for node in &testbed.nodes {
        join(testbed, node).with_context(|| format!("cannot make the network of {}", node.name))?;
    }
    routes(testbed).context("cannot set routes")
}

fn control_plane(testbed: &Testbed) -> Result<()> {
    let (host, link) = (testbed.host_ip(), testbed.host_link());
    namespace(CONTROL_PLANE)?;
    ip(&format!("-n {CONTROL_PLANE} link add br0 address 02:00:00:00:00:01 type bridge"))?;
    ip(&format!("-n {CONTROL_PLANE} addr add {}/24 dev br0", testbed.control_plane_ip()))?;
    ip(&format!("-n {CONTROL_PLANE} link set br0 up"))?;
    ip(&format!("link add {link} type veth peer name host netns {CONTROL_PLANE}"))?;
    ip(&format!("-n {CONTROL_PLANE} link set host master br0 up"))?;
    ip(&format!("addr add {host}/24 dev {link}"))?;
    ip(&format!("link set {link} up")).map(drop)
}

fn namespace(name: &str) -> Result<()> {
    ip(&format!("netns add {name}"))?;
    ip(&format!("-n {name} link set lo up"))?;
    // A node that forwards a Service's packet out of the link it came by must not tell the sender of a shorter way:
    // that way knows no Services.
    let redirects = ["net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.default.send_redirects=0"];
    inside(name, "sysctl", &[&["-q", "-w", "net.ipv4.ip_forward=1"], redirects.as_slice()].concat()).map(drop)
}

fn join(testbed: &Testbed, node: &Node) -> Result<()> {
    let name = &node.name;
    namespace(name)?;
    ip(&format!("link add eth0 netns {name} type veth peer name {name} netns {CONTROL_PLANE}"))?;
    attach(node)?;
    ip(&format!("-n {CONTROL_PLANE} link set {name} up"))?;
    ip(&format!("-n {name} addr add {}/24 dev eth0", node.ip))?;
    ip(&format!("-n {name} link set eth0 up"))?;
    ip(&format!("-n {name} route add default via {}", testbed.control_plane_ip())).map(drop)
}

/// Pod networks are reached through their nodes; Services, from the host, through one node's kube-proxy.
fn routes(testbed: &Testbed) -> Result<()> {
    for target in &testbed.nodes {
        let route = format!("route add {} via {}", target.pod_cidr, target.ip);
        ip(&route)?;
        ip(&format!("-n {CONTROL_PLANE} {route}"))?;
        for node in testbed.nodes.iter().filter(|node| node.name != target.name) {
            ip(&format!("-n {} {route}", node.name))?;
        }
    }
    testbed.nodes.first().map_or(Ok(()), |node| services_through(testbed, node))
}

/// Leads the host to Services through this node.
pub fn services_through(testbed: &Testbed, node: &Node) -> Result<()> {
    ip(&format!("route replace {} via {}", testbed.service_cidr(), node.ip)).map(drop)
}

/// Puts the node's cable into the bridge.
pub fn attach(node: &Node) -> Result<()> {
    ip(&format!("-n {CONTROL_PLANE} link set {} master br0", node.name)).map(drop)
}

/// Pulls it out: the node keeps its carrier, and packets vanish without a word, as in a real partition.
pub fn detach(node: &Node) -> Result<()> {
    ip(&format!("-n {CONTROL_PLANE} link set {} nomaster", node.name)).map(drop)
}

fn inside(namespace: &str, program: &str, arguments: &[&str]) -> Result<String> {
    // Not `ip netns exec`: that remounts /sys and hides the cgroups.
    finish(Command::new("nsenter").arg(format!("--net=/run/netns/{namespace}")).arg("--").arg(program).args(arguments))
}
