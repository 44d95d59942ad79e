//! Rule sets loaded by real iptables, judged by real TCP connections between network namespaces that stand in for
//! a node and three pods, wired as the `ptp` CNI plugin does. Needs root; without it the test says so and passes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use testbed_agent::config::Node;
use testbed_agent::policy::loader::{Outcome, ensure};
use testbed_agent::policy::rules::for_node;
use testbed_agent::policy::world::{PodView, World};

const GATEWAY: &str = "10.200.1.1";
const SERVER: &str = "10.200.1.2";
const SERVICE: &str = "10.201.0.10";
const PODS: [(&str, &str); 3] = [("server", SERVER), ("friend", "10.200.1.3"), ("stranger", "10.200.1.4")];
/// A first packet that is lost is sent again after a second, and links just made lose some.
const ADMITTED: Duration = Duration::from_secs(60);
/// Denied packets vanish, so every denial takes this long.
const DENIED: Duration = Duration::from_millis(400);

/// A node's namespace with three pods, removed when dropped.
struct Bench {
    tag: String,
}

impl Bench {
    /// `letter` keeps the tests of one process apart.
    fn new(letter: char) -> Result<Self> {
        let bench = Self { tag: format!("tba{}{letter}", std::process::id()) };
        tool("ip", &["netns", "add", &bench.namespace("node")])?;
        bench.inside("node", &["ip", "link", "set", "lo", "up"])?;
        bench.inside("node", &["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])?;
        PODS.iter().enumerate().try_for_each(|(index, (pod, address))| bench.add_pod(index, pod, address))?;
        Ok(bench)
    }

    fn add_pod(&self, index: usize, pod: &str, address: &str) -> Result<()> {
        let (outer, host) = (format!("veth{index}"), format!("{address}/32"));
        tool("ip", &["netns", "add", &self.namespace(pod)])?;
        let namespace = self.namespace(pod);
        self.inside(
            "node",
            &["ip", "link", "add", &outer, "type", "veth", "peer", "name", "eth0", "netns", &namespace],
        )?;
        self.inside("node", &["ip", "address", "add", GATEWAY, "dev", &outer])?;
        self.inside("node", &["ip", "link", "set", &outer, "up"])?;
        self.inside("node", &["ip", "route", "add", &host, "dev", &outer])?;
        self.inside(pod, &["ip", "address", "add", &host, "dev", "eth0"])?;
        self.inside(pod, &["ip", "link", "set", "eth0", "up"])?;
        self.inside(pod, &["ip", "route", "add", "default", "via", GATEWAY, "dev", "eth0", "onlink"])
    }

    fn namespace(&self, part: &str) -> String {
        format!("{}-{part}", self.tag)
    }

    fn path(&self, part: &str) -> PathBuf {
        PathBuf::from("/run/netns").join(self.namespace(part))
    }

    fn inside(&self, part: &str, command: &[&str]) -> Result<()> {
        let enter = format!("--net={}", self.path(part).display());
        tool("nsenter", &[&[enter.as_str()], command].concat())
    }

    /// Runs `action` in a thread inside the namespace; sockets made there stay in it.
    fn within<T: Send>(&self, part: &str, action: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let file = std::fs::File::open(self.path(part))?;
        let enter = || {
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))?;
            action()
        };
        std::thread::scope(|scope| match scope.spawn(enter).join() {
            Ok(result) => result,
            Err(_) => bail!("the thread inside {part} panicked"),
        })
    }

    fn listen(&self, port: u16) -> Result<TcpListener> {
        self.within("server", || Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?))
    }

    /// A Service address in front of the server, translated as kube-proxy does.
    fn add_service(&self) -> Result<()> {
        let translate = ["-A", "PREROUTING", "-d", SERVICE, "-j", "DNAT", "--to-destination", SERVER];
        self.inside("node", &[&["iptables", "-t", "nat"], translate.as_slice()].concat())?;
        let hairpin = ["-A", "POSTROUTING", "-s", SERVER, "-d", SERVER, "-j", "MASQUERADE"];
        self.inside("node", &[&["iptables", "-t", "nat"], hairpin.as_slice()].concat())
    }

    fn connect(&self, from: &str, to: &str, port: u16, limit: Duration) -> Result<TcpStream> {
        let target: SocketAddr = format!("{to}:{port}").parse()?;
        self.within(from, || Ok(TcpStream::connect_timeout(&target, limit)?))
    }

    fn reaches(&self, from: &str, port: u16) -> bool {
        self.connect(from, SERVER, port, ADMITTED).is_ok()
    }

    fn is_kept_from(&self, from: &str, port: u16) -> bool {
        self.connect(from, SERVER, port, DENIED).is_err()
    }

    fn reaches_service(&self, from: &str) -> bool {
        self.connect(from, SERVICE, 6379, ADMITTED).is_ok()
    }

    fn is_kept_from_service(&self, from: &str) -> bool {
        self.connect(from, SERVICE, 6379, DENIED).is_err()
    }

    fn node(&self) -> Result<Node> {
        let pod_cidr = "10.200.1.0/24".parse().map_err(anyhow::Error::msg)?;
        Ok(Node { name: "node-1".into(), netns: self.path("node"), pod_cidr })
    }

    async fn enforce(&self, policies: &[Value]) -> Result<Outcome> {
        let node = self.node()?;
        Ok(ensure(&node.netns, &for_node(&node, &world(policies)?)).await?)
    }

    fn filter_table(&self) -> Result<String> {
        let enter = format!("--net={}", self.path("node").display());
        let output = Command::new("nsenter").args([&enter, "iptables-save", "-t", "filter"]).output()?;
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for part in ["node", "server", "friend", "stranger"] {
            let _ = Command::new("ip")
                .args(["netns", "delete", &self.namespace(part)])
                .stderr(std::process::Stdio::null())
                .status();
        }
    }
}

fn tool(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn world(policies: &[Value]) -> Result<World> {
    let pod = |(name, address): &(&str, &str)| {
        let labels = [("app".to_owned(), (*name).to_owned())].into();
        let address = address.parse()?;
        Ok(PodView { namespace: "ns".into(), labels, node: "node-1".into(), address, ports: Vec::new() })
    };
    let pods = PODS.iter().map(pod).collect::<Result<Vec<_>>>()?;
    let policy = |spec: &Value| {
        let policy = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec});
        Ok(serde_json::from_value(policy)?)
    };
    let policies = policies.iter().map(policy).collect::<Result<Vec<_>>>()?;
    Ok(World { pods, namespaces: [("ns".to_owned(), [].into())].into(), policies })
}

fn deny_server() -> Value {
    json!({"podSelector": {"matchLabels": {"app": "server"}}})
}

fn admit_friend() -> Value {
    json!({"podSelector": {"matchLabels": {"app": "server"}}, "ingress": [
        {"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}], "ports": [{"port": 6379}]}]})
}

/// Every form of rule at once, so that iptables itself judges the syntax.
fn everything_else() -> Value {
    json!({"podSelector": {"matchLabels": {"app": "server"}}, "ingress": [
        {"from": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.64/26"]}}],
         "ports": [{"port": 1000, "endPort": 2000}, {"protocol": "UDP"}, {"protocol": "UDP", "port": 53}, {}]},
        {"from": [{"ipBlock": {"cidr": "198.51.100.0/24"}}]}]})
}

#[tokio::test]
async fn policies_decide_which_connections_come_about() {
    if !geteuid().is_root() {
        return eprintln!("skipped policies_decide_which_connections_come_about: network namespaces need root");
    }
    let bench = Bench::new('a').unwrap();
    let (valkey, _other) = (bench.listen(6379).unwrap(), bench.listen(6380).unwrap());
    bench.add_service().unwrap();
    assert_eq!(bench.enforce(&[]).await.unwrap(), Outcome::Reloaded);
    let mut early = bench.connect("stranger", SERVER, 6379, ADMITTED).expect("open without policies");
    let (mut accepted, _) = valkey.accept().unwrap();

    bench.enforce(&[deny_server()]).await.unwrap();
    assert!(bench.is_kept_from("friend", 6379) && bench.is_kept_from("stranger", 6379), "denied");
    assert!(bench.reaches_service("server"), "a pod reaches itself through its Service");
    early.write_all(b"still here").unwrap();
    let mut received = [0; 10];
    accepted.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    accepted.read_exact(&mut received).expect("an established connection stays");

    bench.enforce(&[deny_server(), admit_friend(), everything_else()]).await.unwrap();
    assert!(bench.reaches("friend", 6379), "admitted");
    assert!(bench.is_kept_from("friend", 6380), "another port");
    assert!(bench.is_kept_from("stranger", 6379), "another pod");
    assert!(bench.reaches_service("friend") && bench.is_kept_from_service("stranger"), "a Service changes nothing");

    bench.enforce(&[]).await.unwrap();
    assert!(bench.reaches("stranger", 6379), "open again");
    assert!(!bench.filter_table().unwrap().contains("TESTBED-POD-"), "stale chains are gone");
}

#[tokio::test]
async fn rules_are_loaded_only_when_they_differ_and_are_put_back_in_front() {
    if !geteuid().is_root() {
        return eprintln!("skipped rules_are_loaded_only_when_they_differ…: network namespaces need root");
    }
    let bench = Bench::new('b').unwrap();
    let _valkey = bench.listen(6379).unwrap();
    assert_eq!(bench.enforce(&[deny_server()]).await.unwrap(), Outcome::Reloaded);
    assert_eq!(bench.enforce(&[deny_server()]).await.unwrap(), Outcome::InForce);

    bench.inside("node", &["iptables", "-I", "FORWARD", "-j", "ACCEPT"]).unwrap();
    assert!(bench.reaches("friend", 6379), "the rule in front admits all");
    assert_eq!(bench.enforce(&[deny_server()]).await.unwrap(), Outcome::Reloaded);
    assert!(bench.is_kept_from("friend", 6379), "ours is in front again");
    assert_eq!(bench.filter_table().unwrap().matches("-A FORWARD -j TESTBED-INGRESS").count(), 1);

    bench.inside("node", &["iptables", "-F"]).unwrap();
    assert_eq!(bench.enforce(&[deny_server()]).await.unwrap(), Outcome::Reloaded);
    assert!(bench.is_kept_from("friend", 6379), "back after a flush");
}
