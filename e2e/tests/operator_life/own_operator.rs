//! An operator as a process of this machine, for one namespace. Killed when dropped.

use crate::proxy::Proxy;
use anyhow::{Context, Result, ensure};
use e2e::{Test, Verdict, collection};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, UdpSocket},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tokio::sync::OnceCell;

const QUIET: Duration = Duration::from_secs(3);

pub struct OwnOperator {
    pub name: String,
    pub proxy: Proxy,
    log: PathBuf,
    process: Child,
    _kubeconfig: tempfile::NamedTempFile,
}

impl OwnOperator {
    /// Alone, without a Lease; with `last`, it is stuck at its write of that number.
    pub async fn start(test: &Test, name: &str, last: Option<usize>) -> Result<Self> {
        Self::start_with(test, name, last, &["--leader-election", "false"]).await
    }

    pub async fn start_with(test: &Test, name: &str, last: Option<usize>, arguments: &[&str]) -> Result<Self> {
        test.note(format!("start operator {name}, last write {last:?}"));
        let proxy = Proxy::listen(test.client(), last).await?;
        let kubeconfig = kubeconfig(&proxy, &test.namespace)?;
        let log = log_path(test, name)?;
        let mut command = Command::new(program()?);
        command.args(["--watch-namespaces", &test.namespace, "--listen-address", "127.0.0.1:0"]);
        command.args(line(test).await?).args(arguments);
        command.env("KUBECONFIG", kubeconfig.path()).env("POD_NAME", name).env_remove("POD_NAMESPACE");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).context("make the operator's log")?);
        let process = command.spawn().context("start the operator")?;
        Ok(Self { name: name.to_owned(), proxy, log, process, _kubeconfig: kubeconfig })
    }

    /// What it has logged so far.
    pub fn log(&self) -> Result<String> {
        fs::read_to_string(&self.log).context("read the operator's log")
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill().context("kill the operator")?;
        self.process.wait().context("wait for the operator's end")?;
        Ok(())
    }

    /// Waits until it has written nothing for three seconds.
    pub async fn is_quiet(&self, test: &Test) -> Result<()> {
        let mut quiet = (self.proxy.writes().len(), Instant::now());
        test.wait_for("three seconds without a write", e2e::PATIENCE, async || {
            let writes = self.proxy.writes().len();
            if writes != quiet.0 {
                quiet = (writes, Instant::now());
            }
            Ok(Verdict::when(quiet.1.elapsed() > QUIET, || format!("{writes} writes")))
        })
        .await
    }

    /// SIGTERM, and waits for its end; gives the exit code.
    pub async fn stop(&mut self, test: &Test) -> Result<Option<i32>> {
        let status = Command::new("kill").arg(self.process.id().to_string()).status().context("run kill")?;
        ensure!(status.success(), "the operator {} was not there to be stopped", self.name);
        let what = format!("operator {} to end", self.name);
        test.wait_for(&what, e2e::PATIENCE, async || {
            Ok(match self.process.try_wait()? {
                Some(status) => Verdict::Met(status.code()),
                None => Verdict::not_yet("it runs"),
            })
        })
        .await
    }
}

impl Drop for OwnOperator {
    fn drop(&mut self) {
        // It may have been killed before, which is no trouble here.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where sidecars find it. All operators of this process name the same places, so that their settings are equal, and each listens
/// at the first that is free.
async fn line(test: &Test) -> Result<[String; 4]> {
    let places = places(test).await?;
    let free = places.iter().find(|place| TcpListener::bind(place).is_ok()).context("all places are taken")?;
    let all: Vec<_> = places.iter().map(SocketAddr::to_string).collect();
    Ok(["--line-address".to_owned(), free.to_string(), "--line-advertise".to_owned(), all.join(",")])
}

/// Three ports of this machine at the address under which pods reach it.
async fn places(test: &Test) -> Result<[SocketAddr; 3]> {
    static PLACES: OnceCell<[SocketAddr; 3]> = OnceCell::const_new();
    let look = async || {
        let nodes = Api::<Node>::all(test.client()).list(&Default::default()).await.context("list the nodes")?;
        let address = nodes.items.iter().find_map(address).context("no node has an address")?;
        let probe = UdpSocket::bind("0.0.0.0:0").context("make a socket")?;
        probe.connect((address.as_str(), 1)).context("find the way to the nodes")?;
        let own = probe.local_addr().context("read the own address")?.ip();
        let held = [(); 3].map(|()| TcpListener::bind((own, 0)).context("find a free port"));
        let [first, second, third] = held;
        let (first, second, third) = (first?, second?, third?);
        anyhow::Ok([first.local_addr()?, second.local_addr()?, third.local_addr()?])
    };
    PLACES.get_or_try_init(look).await.copied()
}

fn address(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    Some(addresses.iter().find(|address| address.type_ == "InternalIP")?.address.clone())
}

/// The one that is in the installed image: the script has just built it.
fn program() -> Result<PathBuf> {
    let executable = std::env::current_exe().context("find the test executable")?;
    let target = executable.ancestors().nth(3).context("the test executable is in no target directory")?;
    let program = target.join("quick/valkey-operator");
    ensure!(program.exists(), "no operator at {}: build it with e2e/install-operator", program.display());
    Ok(program)
}

fn kubeconfig(proxy: &Proxy, namespace: &str) -> Result<tempfile::NamedTempFile> {
    let file = tempfile::NamedTempFile::new().context("make a kubeconfig")?;
    let text = format!(
        "apiVersion: v1
kind: Config
current-context: proxy
clusters: [{{name: proxy, cluster: {{server: 'http://{}'}}}}]
contexts: [{{name: proxy, context: {{cluster: proxy, user: nobody, namespace: {namespace}}}}}]
users: [{{name: nobody, user: {{}}}}]
",
        proxy.address
    );
    fs::write(file.path(), text).context("write the kubeconfig")?;
    Ok(file)
}

/// Beside the evidence, where a failed test's logs are looked for. The collection empties its own folder first.
fn log_path(test: &Test, name: &str) -> Result<PathBuf> {
    let directory = collection::directory_of(&format!("{}-operators", test.name))?;
    fs::create_dir_all(&directory).context("make a folder for the operator's log")?;
    Ok(directory.join(format!("{name}.log")))
}

/// Removes the logs of a test that went well.
pub fn forget_logs(test: &Test) -> Result<()> {
    fs::remove_dir_all(collection::directory_of(&format!("{}-operators", test.name))?).context("remove the logs")
}
