//! An operator as a process of this machine, for one namespace. Killed when dropped.

use crate::proxy::Proxy;
use anyhow::{Context, Result, ensure};
use e2e::{Test, Verdict, cluster, collection};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const QUIET: Duration = Duration::from_secs(3);

pub struct OwnOperator {
    pub name: String,
    pub proxy: Proxy,
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
        let log = log_file(test, name)?;
        let mut command = Command::new(program()?);
        command.args(["--watch-namespaces", &test.namespace, "--listen-address", "127.0.0.1:0"]).args(arguments);
        command.env("KUBECONFIG", kubeconfig.path()).env("POD_NAME", name).env_remove("POD_NAMESPACE");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = command.spawn().context("start the operator")?;
        Ok(Self { name: name.to_owned(), proxy, process, _kubeconfig: kubeconfig })
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
        test.wait_for("three seconds without a write", cluster::PATIENCE, async || {
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
        test.wait_for(&what, Duration::from_secs(10), async || {
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

/// The one that is in the installed image: the script has just built it.
fn program() -> Result<PathBuf> {
    let executable = std::env::current_exe().context("find the test executable")?;
    let target = executable.ancestors().nth(3).context("the test executable is in no target directory")?;
    let program = target.join("release/valkey-operator");
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
fn log_file(test: &Test, name: &str) -> Result<File> {
    let directory = collection::directory_of(&format!("{}-operators", test.name))?;
    fs::create_dir_all(&directory).context("make a folder for the operator's log")?;
    File::create(directory.join(format!("{name}.log"))).context("make the operator's log")
}

/// Removes the logs of a test that went well.
pub fn forget_logs(test: &Test) -> Result<()> {
    fs::remove_dir_all(collection::directory_of(&format!("{}-operators", test.name))?).context("remove the logs")
}
