//! etcd, the Kubernetes control plane and DNS: their command lines and configuration files.

use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::command::finish;
use crate::layout::{Dir, Testbed};
use crate::network::CONTROL_PLANE;
use crate::patience;
use crate::supervisor::{Part, Supervisor};

const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  verbs: [get, list, watch]
  users: ["system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy"]
- level: None
  verbs: [get, list, watch]
  userGroups: ["system:nodes"]
- level: Metadata
"#;

pub fn start_etcd(testbed: &Testbed, supervisor: &Supervisor) -> Result<()> {
    let dir = testbed.dir();
    let data = dir.text("etcd");
    // Nothing in a testbed outlives a crash of the machine, so etcd need not wait for the disk.
    let flags = [
        format!("--data-dir={data}"),
        "--unsafe-no-fsync".into(),
        "--logger=zap".into(),
        "--listen-client-urls=http://127.0.0.1:2379".into(),
        "--advertise-client-urls=http://127.0.0.1:2379".into(),
        "--listen-peer-urls=http://127.0.0.1:2380".into(),
        "--auto-compaction-retention=5m".into(),
        "--quota-backend-bytes=4294967296".into(),
    ];
    supervisor.start(part(&dir, "etcd", flags))
}

pub fn start_api_server(testbed: &Testbed, supervisor: &Supervisor) -> Result<()> {
    let dir = testbed.dir();
    fs::write(dir.file("audit-policy.yaml"), AUDIT_POLICY)?;
    let pki = |file: &str| dir.text(&format!("pki/{file}"));
    let flags = [
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        format!("--advertise-address={}", testbed.control_plane_ip()),
        "--secure-port=6443".into(),
        format!("--service-cluster-ip-range={}", testbed.service_cidr()),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--tls-cert-file={}", pki("kube-apiserver.crt")),
        format!("--tls-private-key-file={}", pki("kube-apiserver.key")),
        format!("--kubelet-certificate-authority={}", pki("ca.crt")),
        format!("--kubelet-client-certificate={}", pki("kubelet-client.crt")),
        format!("--kubelet-client-key={}", pki("kubelet-client.key")),
        "--kubelet-preferred-address-types=InternalIP".into(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
        format!("--service-account-key-file={}", pki("service-account.pub")),
        format!("--service-account-signing-key-file={}", pki("service-account.key")),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        "--allow-privileged=true".into(),
        format!("--audit-policy-file={}", dir.text("audit-policy.yaml")),
        format!("--audit-log-path={}", dir.text("audit.log")),
        "--audit-log-maxsize=200".into(),
        "--profiling=false".into(),
    ];
    supervisor.start(part(&dir, "kube-apiserver", flags))
}

pub fn start_controllers(testbed: &Testbed, supervisor: &Supervisor) -> Result<()> {
    let dir = testbed.dir();
    let pki = |file: &str| dir.text(&format!("pki/{file}"));
    let mut flags = client_flags(&dir, "kube-controller-manager");
    flags.extend([
        "--use-service-account-credentials=true".to_owned(),
        format!("--root-ca-file={}", pki("ca.crt")),
        format!("--service-account-private-key-file={}", pki("service-account.key")),
        format!("--cluster-signing-cert-file={}", pki("ca.crt")),
        format!("--cluster-signing-key-file={}", pki("ca.key")),
        // A lost node is noticed in seconds: tests wait for it.
        "--node-monitor-period=1s".into(),
        format!("--node-monitor-grace-period={}s", patience::seconds(12).as_secs()),
    ]);
    supervisor.start(part(&dir, "kube-controller-manager", flags))?;
    supervisor.start(part(&dir, "kube-scheduler", client_flags(&dir, "kube-scheduler")))
}

fn client_flags(dir: &Dir, name: &str) -> Vec<String> {
    let kubeconfig = dir.text(&format!("pki/{name}.kubeconfig"));
    let flag = |flag: &str| format!("--{flag}={kubeconfig}");
    let files = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"].map(flag);
    files.into_iter().chain(["--leader-elect=false".to_owned(), "--profiling=false".to_owned()]).collect()
}

pub fn start_dns(testbed: &Testbed, supervisor: &Supervisor) -> Result<()> {
    let dir = testbed.dir();
    let corefile = format!(
        ".:53 {{\n  bind {}\n  errors\n  ready {}:8181\n  cache 5\n  kubernetes cluster.local in-addr.arpa {{\n    kubeconfig {}\n    ttl 5\n  }}\n}}\n",
        testbed.control_plane_ip(),
        testbed.control_plane_ip(),
        dir.text("pki/coredns.kubeconfig"),
    );
    fs::write(dir.file("Corefile"), corefile)?;
    supervisor.start(part(&dir, "coredns", [format!("-conf={}", dir.text("Corefile"))]))
}

/// The Service that pods ask for names; its one endpoint is CoreDNS beside the API server.
pub fn dns_service(testbed: &Testbed) -> serde_json::Value {
    let ports = serde_json::json!([
        {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]);
    let labels = serde_json::json!({"k8s-app": "kube-dns", "kubernetes.io/service-name": "kube-dns"});
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service",
         "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
         "spec": {"clusterIP": testbed.dns_service_ip().to_string(), "ports": ports}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
         "metadata": {"name": "kube-dns-control-plane", "namespace": "kube-system", "labels": labels},
         "ports": ports, "endpoints": [{"addresses": [testbed.control_plane_ip().to_string()], "conditions": {"ready": true}}]},
    ]})
}

/// Runs kubectl as the testbed's administrator.
pub fn kubectl(dir: &Dir, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(dir.binary("kubectl"));
    command.env("KUBECONFIG", dir.kubeconfig()).env("KUBECACHEDIR", dir.file("kubectl-cache")).args(arguments);
    finish(&mut command)
}

fn part(dir: &Dir, name: &str, flags: impl IntoIterator<Item = String>) -> Part {
    Part {
        name: name.to_owned(),
        network_namespace: Some(format!("/run/netns/{CONTROL_PLANE}")),
        command: std::iter::once(dir.binary(name)).chain(flags).collect(),
        environment: vec![],
        log: dir.log(name),
    }
}
