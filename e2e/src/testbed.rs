//! A testbed on this machine as the tests see it: where its files are and how to call its driver. IO.
//! Used by `environment`, `fault` and by the tests of the testbed's own life cycle.

use crate::command::{self, CommandOutput};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

pub const STATE_ROOT: &str = "/var/lib/valkey-testbed";

#[derive(Debug, Clone)]
pub struct Testbed {
    pub name: String,
    pub directory: PathBuf,
    driver: PathBuf,
}

impl Testbed {
    /// Does not ask whether it is up.
    pub fn named(name: &str) -> Result<Self> {
        Ok(Self { name: name.to_owned(), directory: Path::new(STATE_ROOT).join(name), driver: driver_path()? })
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    pub fn audit_log(&self) -> PathBuf {
        self.directory.join("audit.log")
    }

    pub fn logs_directory(&self) -> PathBuf {
        self.directory.join("logs")
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join("bin").join(name)
    }

    /// Runs the driver on this testbed, e.g. `["node", "cut", "node-1"]`, and gives what it printed.
    pub async fn driver(&self, arguments: &[&str]) -> Result<String> {
        self.try_driver(arguments).await?.success()
    }

    /// As `driver`, for callers to whom a failure is an answer.
    pub async fn try_driver(&self, arguments: &[&str]) -> Result<CommandOutput> {
        command::run(self.driver_command(arguments).into()).await
    }

    /// For `Drop`, where nothing can be awaited.
    pub fn driver_blocking(&self, arguments: &[&str]) -> Result<String> {
        command::run_blocking(self.driver_command(arguments))?.success()
    }

    pub fn driver_command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(&self.driver);
        command.arg("--name").arg(&self.name).args(arguments);
        command
    }
}

/// `TESTBED_BIN`, else the binary that the same cargo profile built.
fn driver_path() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TESTBED_BIN") {
        return Ok(path.into());
    }
    let executable = std::env::current_exe().context("find the test executable")?;
    let profile = executable.ancestors().nth(2).context("the test executable is in no target directory")?;
    let driver = profile.join("testbed");
    ensure!(
        driver.exists(),
        "no testbed driver at {}: build it with `cargo build -p testbed`, or set TESTBED_BIN",
        driver.display()
    );
    Ok(driver)
}
