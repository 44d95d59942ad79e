//! The certificate of the line from a SPIFFE Workload API instead of a mounted Secret: one trust domain, as one SPIRE has it.

use crate::{footprint::resident_mebibytes, line_operator::RunningOperator, pod::Pod};
use link::Credentials;
use pki::{Bundle, DomainBundles};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::{fs, time::Duration};
use tokio::runtime::Runtime;
use valkey::testing::ServerVersion;
use workload_api::testing::{Agent, Domain};

const OPERATOR: &str = "spiffe://example.org/ns/valkey-system/valkey-operator";
const SIDECAR: &str = "spiffe://example.org/ns/default/valkeycluster/poc/sidecar";
const HOUR: Duration = Duration::from_secs(3600);
const LARGEST: f64 = if cfg!(debug_assertions) { 32.0 } else { 10.0 };

struct Spire {
    domain: Domain,
    agent: Agent,
    runtime: Runtime,
}

impl Spire {
    fn start(pod: &Pod) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let entered = runtime.enter();
        let agent = Agent::listen(&pod.folder.path().join("agent.sock")).unwrap();
        drop(entered);
        Self { domain: Domain::new("example.org").unwrap(), agent, runtime }
    }

    /// A fresh identity for the sidecar; returns the thumbprint.
    fn give(&self) -> String {
        let svid = self.domain.svid(SIDECAR, HOUR).unwrap();
        let thumbprint = pki::Thumbprint::of(&CertificateDer::from(svid.x509_svid.clone()));
        self.agent.give(vec![svid], Default::default());
        thumbprint.to_string()
    }

    fn operator(&self) -> Credentials {
        let svid = self.domain.svid(OPERATOR, HOUR).unwrap();
        let mut domains = DomainBundles::default();
        domains.insert("example.org".parse().unwrap(), Bundle::from_der(vec![svid.bundle.into()]).unwrap());
        let key = PrivatePkcs8KeyDer::from(svid.x509_svid_key);
        Credentials::from_der(vec![svid.x509_svid.into()], key.into(), domains.into()).unwrap()
    }
}

#[test]
fn a_sidecar_gets_its_certificate_from_the_workload_api_and_follows_its_changes() {
    let mut pod = Pod::new(ServerVersion::V9_1, &[]);
    let mut spire = Spire::start(&pod);
    let operator = RunningOperator::start(spire.operator());
    fs::write(pod.folder.path().join("token"), "default/poc/poc-0\n").unwrap();
    pod.line = operator.settings();
    pod.line["operatorId"] = OPERATOR.into();
    pod.line["workloadApiSocket"] = spire.agent.endpoint().to_string().into();
    pod.set(&[]);
    pod.start_sidecar(&[]);
    pod.start_server();
    pod.wait_settled();
    let problem = |pod: &Pod, part: &str| {
        pod.status()["line"]["certificateProblem"].as_str().is_some_and(|text| text.contains(part))
    };
    pod.wait_for("the denial in /status", |pod| problem(pod, "no identity issued"));
    spire.give();
    pod.wait_for("the line", |pod| pod.status()["line"]["connected"] == true);
    spire.agent.stop();
    pod.wait_for("the loss of the socket in /status", |pod| problem(pod, "could not reach"));
    assert_eq!(pod.status()["line"]["connected"], true);
    let leaf = spire.give();
    let entered = spire.runtime.enter();
    spire.agent.start().unwrap();
    drop(entered);
    pod.wait_for("a connection with the new certificate", |pod| pod.status()["line"]["connectionCertificate"] == leaf);
    pod.wait_for("no problem", |pod| pod.status()["line"]["certificateProblem"].is_null());
    assert!(operator.refusals().is_empty(), "{:?}", operator.refusals());
    let resident = resident_mebibytes(pod.sidecar.as_ref().unwrap().id());
    println!("resident {resident:.1} MiB");
    assert!(resident <= LARGEST, "resident {resident:.1} MiB");
}
