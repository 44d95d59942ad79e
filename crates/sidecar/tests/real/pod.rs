//! What a pod is made of, without Kubernetes: a sidecar process, a Valkey process, the folders they share.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use valkey::{
    Connection,
    testing::{ServerVersion, TestServer, free_port},
};

/// It costs only a test that fails.
pub const DEADLINE: Duration = Duration::from_secs(120);
pub const CLUSTER_UID: &str = "uid-of-poc";
pub const POD_UID: &str = "uid-of-poc-0";

pub struct Pod {
    pub version: ServerVersion,
    pub folder: TempDir,
    pub data: PathBuf,
    pub port: u16,
    pub health: u16,
    pub sidecar: Option<Child>,
    pub server: Option<TestServer>,
    /// `line` of the settings; null: the pod works alone.
    pub line: serde_json::Value,
}

pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    pub fn state(&self) -> String {
        self.json()["state"].as_str().unwrap_or_default().to_owned()
    }
}

impl Pod {
    pub fn new(version: ServerVersion, parameters: &[(&str, &str)]) -> Self {
        let folder = tempfile::Builder::new().prefix("sidecar-test-").tempdir().unwrap();
        let data = folder.path().join("data");
        for name in ["data", "run"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let (port, health) = (free_port().unwrap(), free_port().unwrap());
        let pod =
            Self { version, folder, data, port, health, sidecar: None, server: None, line: serde_json::Value::Null };
        pod.set(parameters);
        pod
    }

    /// A pod whose sidecar and Valkey both run, with all settings applied.
    pub fn settled(version: ServerVersion, parameters: &[(&str, &str)]) -> Self {
        let mut pod = Self::new(version, parameters);
        pod.start_sidecar(&[]);
        pod.start_server();
        pod.wait_settled();
        pod
    }

    /// Swaps the settings in as the kubelet does: a new file under the old name.
    pub fn set(&self, parameters: &[(&str, &str)]) {
        let parameters: serde_json::Map<_, _> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), serde_json::Value::from(*value))).collect();
        let settings = serde_json::json!({
            "settingsVersion": 1, "cluster": "poc", "namespace": "default", "headlessService": "poc-headless",
            "valkeyVersion": self.version.line(), "masterCount": 3, "replicasPerMaster": 1,
            "persistentVolume": true, "parameters": parameters, "clusterUid": CLUSTER_UID, "line": self.line,
        });
        self.set_text(&settings.to_string());
    }

    pub fn set_text(&self, text: &str) {
        let path = self.folder.path().join("settings.json");
        fs::write(path.with_extension("new"), text).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    pub fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    pub fn conf(&self) -> String {
        fs::read_to_string(self.run_dir().join("rendered.conf")).unwrap_or_default()
    }

    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(program());
        command.arg(name).arg("--settings").arg(self.folder.path().join("settings.json"));
        command.arg("--data-dir").arg(&self.data).arg("--run-dir").arg(self.run_dir());
        command.args(["--port", &self.port.to_string(), "--pod-ip", "127.0.0.1"]);
        command.args(["--pod-name", "poc-0", "--pod-namespace", "default"]);
        command
    }

    fn run_command(&self) -> Command {
        let mut command = self.command("run");
        command.args(["--pod-uid", POD_UID, "--mtls-dir"]).arg(self.folder.path().join("mtls"));
        command.arg("--line-token").arg(self.folder.path().join("token"));
        command
    }

    pub fn start_sidecar(&mut self, more: &[&str]) {
        let log = fs::File::create(self.folder.path().join("sidecar.log")).unwrap();
        let mut command = self.run_command();
        command.args(["--health-address", &format!("127.0.0.1:{}", self.health)]);
        // Short, because some servers of these tests never answer; long enough for one that only waits for its turn.
        if !more.contains(&"--probe-deadline") {
            command.args(["--probe-deadline", "2"]);
        }
        command.args(more).stderr(log).stdin(Stdio::null());
        self.sidecar = Some(command.spawn().unwrap());
        self.wait_for("/healthz says 200", |pod| pod.try_get("/healthz").is_some_and(|answer| answer.status == 200));
    }

    pub fn start_server(&mut self) {
        self.try_start_server(&[]).unwrap();
    }

    /// `parameters` stand behind valkey.conf on the command line and win over it.
    pub fn try_start_server(&mut self, parameters: &[&str]) -> std::io::Result<()> {
        let conf = self.run_dir().join("valkey.conf");
        self.server = Some(TestServer::start_from(self.version, &conf, self.port, parameters)?);
        Ok(())
    }

    pub fn server(&mut self) -> &mut TestServer {
        self.server.as_mut().unwrap()
    }

    pub async fn connect(&self) -> Connection {
        self.server.as_ref().unwrap().connect().await.unwrap()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.try_get(path).unwrap_or_else(|| panic!("the sidecar does not answer; its log:\n{}", self.log()))
    }

    pub fn try_get(&self, path: &str) -> Option<Answer> {
        get(self.health, path)
    }

    /// Ready, but for the cluster that most of these pods are not taken into.
    pub fn wait_settled(&self) {
        let settled = |state: String| state == "ready" || state == "cluster-down";
        self.wait_for("all settings are applied", |pod| settled(pod.get("/valkey/readiness").state()));
    }

    pub fn wait_state(&self, path: &str, state: &str) -> Answer {
        self.wait_for(&format!("{path} says {state}"), |pod| pod.get(path).state() == state);
        self.get(path)
    }

    pub fn wait_for(&self, what: &str, mut reached: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + DEADLINE;
        while !reached(self) {
            if Instant::now() > until {
                let now = self.try_get("/valkey/readiness").map(|answer| answer.body).unwrap_or_default();
                panic!("not within {DEADLINE:?}: {what}; readiness: {now}; the sidecar's log:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn status(&self) -> serde_json::Value {
        self.get("/status").json()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("sidecar.log")).unwrap_or_default()
    }

    pub fn stop_sidecar(&mut self) {
        if let Some(mut sidecar) = self.sidecar.take() {
            let _ = sidecar.kill();
            let _ = sidecar.wait();
        }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.stop_sidecar();
    }
}

/// From the sidecar at this port.
pub fn get(health: u16, path: &str) -> Option<Answer> {
    // As the kubelet asks.
    let path = if path == "/valkey/pre-stop" { format!("{path}/{CLUSTER_UID}") } else { path.to_owned() };
    let mut stream = TcpStream::connect(("127.0.0.1", health)).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: pod\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

fn program() -> std::ffi::OsString {
    std::env::var_os("VALKEY_SIDECAR").unwrap_or_else(|| env!("CARGO_BIN_EXE_valkey-sidecar").into())
}

/// Polls an answer of Valkey until it is as expected.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut reached: impl FnMut() -> F) {
    let until = Instant::now() + DEADLINE;
    while !reached().await {
        assert!(Instant::now() < until, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub async fn config(pod: &Pod, name: &str) -> String {
    pod.connect().await.config_get(&[name]).await.unwrap().remove(name).unwrap_or_default()
}
