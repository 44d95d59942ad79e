//! Where a testbed keeps its things and which addresses it has. Pure but for reading and writing `testbed.json`.
//! The addresses of testbed number `index` are all inside 10.(200+index).0.0/16.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::addresses;

/// Holds one folder per testbed.
pub const ROOT: &str = "/var/lib/valkey-testbed";
/// Processes that keep a testbed alive carry this variable with its name; `down` finds them by it.
pub const MARKER: &str = "VALKEY_TESTBED_INIT";
const MAX_TESTBEDS: u8 = 50;
/// The second number of the addresses of testbed 0.
const FIRST_RANGE: u8 = 200;
pub const MAX_NODES: u8 = 20;

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub ip: Ipv4Addr,
    pub pod_cidr: String,
    pub zone: String,
}

/// What `testbed.json` says: all that is fixed when a testbed is made.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Testbed {
    pub name: String,
    pub index: u8,
    pub nodes: Vec<Node>,
}

impl Testbed {
    pub fn new(name: &str, index: u8, nodes: u8) -> Self {
        let nodes = (1..=nodes).map(|number| Node::new(index, number)).collect();
        Self { name: name.to_owned(), index, nodes }
    }

    fn address(&self, third: u8, fourth: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, FIRST_RANGE + self.index, third, fourth)
    }

    /// The control plane's address on the bridge: API server and DNS.
    pub fn control_plane_ip(&self) -> Ipv4Addr {
        self.address(0, 1)
    }

    /// The host's own address on the bridge.
    pub fn host_ip(&self) -> Ipv4Addr {
        self.address(0, 254)
    }

    pub fn service_cidr(&self) -> String {
        format!("{}/20", self.address(128, 0))
    }

    pub fn kubernetes_service_ip(&self) -> Ipv4Addr {
        self.address(128, 1)
    }

    pub fn dns_service_ip(&self) -> Ipv4Addr {
        self.address(128, 10)
    }

    pub fn api_server(&self) -> String {
        format!("https://{}:6443", self.control_plane_ip())
    }

    /// The host's end of the link into the testbed; 15 characters at most.
    pub fn host_link(&self) -> String {
        format!("vtb{}", self.index)
    }

    pub fn dir(&self) -> Dir {
        Dir::of(&self.name)
    }

    pub fn node(&self, name: &str) -> Result<&Node> {
        let known = || self.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = self.nodes.iter().find(|node| node.name == name);
        found.with_context(|| format!("testbed {} has no node {name:?}; its nodes are {}", self.name, known()))
    }

    pub fn read(name: &str) -> Result<Self> {
        let path = Dir::of(name).file("testbed.json");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged; run `testbed down`", path.display()))
    }

    pub fn write(&self) -> Result<()> {
        let path = self.dir().file("testbed.json");
        fs::write(&path, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Node {
    fn new(index: u8, number: u8) -> Self {
        let zone = ["zone-a", "zone-b", "zone-c"].get(usize::from(number - 1) % 3).copied().unwrap_or("zone-a");
        Self {
            name: format!("node-{number}"),
            ip: Ipv4Addr::new(10, FIRST_RANGE + index, 0, 10 + number),
            pod_cidr: format!("10.{}.{number}.0/24", FIRST_RANGE + index),
            zone: zone.to_owned(),
        }
    }

    pub fn network_namespace(&self) -> String {
        format!("/run/netns/{}", self.name)
    }
}

/// The folder of one testbed.
#[derive(Clone, Debug)]
pub struct Dir {
    name: String,
    path: PathBuf,
}

impl Dir {
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), path: Path::new(ROOT).join(name) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.path.join(relative)
    }

    pub fn text(&self, relative: &str) -> String {
        self.file(relative).display().to_string()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.file("kubeconfig")
    }

    pub fn binary(&self, name: &str) -> String {
        self.text(&format!("bin/{name}"))
    }

    pub fn log(&self, part: &str) -> PathBuf {
        self.file(format!("logs/{part}.log"))
    }

    pub fn containerd_socket(&self, node: &str) -> String {
        self.text(&format!("{node}/containerd.sock"))
    }

    /// Relative to the root of each cgroup hierarchy.
    pub fn cgroup(&self) -> String {
        format!("valkey-testbed-{}", self.name)
    }
}

/// A name becomes part of folder, cgroup and namespace names.
pub fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 20 || !name.chars().all(fits) || name.starts_with('-') {
        bail!("--name {name:?} will not do: use 1 to 20 characters of a-z, 0-9 and '-', not starting with '-'");
    }
    Ok(())
}

/// The testbeds that have a folder now.
pub fn all() -> Vec<String> {
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The lowest number that no other testbed has and whose addresses the host does not use itself.
pub fn free_index() -> Result<u8> {
    let testbeds = all().into_iter().filter_map(|name| Testbed::read(&name).ok()).map(|testbed| testbed.index);
    first_free(&testbeds.collect(), &addresses::in_use()?).with_context(|| {
        format!(
            "this machine uses all of {} to {} (`ip route show table all`): take a testbed down with \
             `testbed --name <name> down`, or remove an address or route that is not needed",
            range(0),
            range(MAX_TESTBEDS - 1)
        )
    })
}

fn first_free(testbeds: &BTreeSet<u8>, in_use: &BTreeSet<u8>) -> Option<u8> {
    (0..MAX_TESTBEDS).find(|index| !testbeds.contains(index) && !in_use.contains(&(FIRST_RANGE + index)))
}

/// All addresses of a testbed.
fn range(index: u8) -> String {
    format!("10.{}.0.0/16", FIRST_RANGE + index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_escape_their_folder_are_refused() {
        for bad in ["", "../x", "a/b", "A", "-x", "a_b", "twenty-one-characters"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert!(check_name("main-2").is_ok());
    }

    #[test]
    fn testbeds_of_different_index_share_no_address() {
        let (one, two) = (Testbed::new("a", 0, 3), Testbed::new("b", 1, 3));
        assert_ne!(one.service_cidr(), two.service_cidr());
        assert!(one.nodes.iter().all(|node| two.nodes.iter().all(|other| node.ip != other.ip)));
    }

    #[test]
    fn neither_another_testbed_nor_the_host_shares_a_range() {
        let (testbeds, host) = (BTreeSet::from([0, 2]), BTreeSet::from([10, 201]));
        assert_eq!(first_free(&testbeds, &host), Some(3));
        assert_eq!(first_free(&testbeds, &(0..=255).collect()), None);
    }

    #[test]
    fn zones_go_round() {
        let zones: Vec<String> = Testbed::new("a", 0, 4).nodes.into_iter().map(|node| node.zone).collect();
        assert_eq!(zones, ["zone-a", "zone-b", "zone-c", "zone-a"]);
    }
}
