//! A testbed of a test's own, and the ways to kill its processes at bad moments.

use anyhow::{Context, Result};
use e2e::{PATIENCE, Testbed, Verdict, collection, command, namespace, wait_for};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

#[derive(PartialEq, Eq)]
pub enum Victims {
    Driver,
    DriverAndInit,
}

/// A testbed of this test's own; gone when dropped.
pub struct Own {
    pub testbed: Testbed,
}

impl Own {
    pub fn named(name: &str) -> Result<Self> {
        let own = Self { testbed: Testbed::named(name)? };
        own.testbed.driver_blocking(&["down"]).context("clear what an earlier run left")?;
        Ok(own)
    }

    pub async fn up(&self) -> Result<()> {
        self.testbed.driver(&["up", "--nodes", "1"]).await.map(drop)
    }

    pub async fn up_with_image(&self) -> Result<()> {
        self.up().await?;
        self.testbed.driver(&["load", &image_archive().await?]).await.map(drop)
    }

    pub async fn down(&self) -> Result<()> {
        self.testbed.driver(&["down"]).await.map(drop)
    }

    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.testbed.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        namespace::wait_for_service_account(&client, "default").await?;
        Ok(client)
    }

    /// SIGKILL to a starting `up` as soon as it has made a certain file.
    pub async fn killed_while_starting(&self, milestone: &str, victims: Victims) -> Result<()> {
        let mut driver = self.silent_driver(&["up", "--nodes", "1"])?;
        let path = self.testbed.directory.join(milestone);
        let reached = wait_for("the milestone's file", PATIENCE, async || {
            Ok(Verdict::when(path.exists(), || format!("there is no {milestone}")))
        })
        .await;
        driver.kill()?;
        driver.wait()?;
        if victims == Victims::DriverAndInit {
            self.kill_init().await?;
        }
        Ok(reached?)
    }

    /// SIGKILL to a starting `down`, and then a `down` that must finish the job.
    pub async fn killed_and_down(&self) -> Result<()> {
        let mut driver = self.silent_driver(&["down"])?;
        driver.kill()?;
        driver.wait()?;
        self.down().await
    }

    fn silent_driver(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = self.testbed.driver_command(arguments);
        Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    pub async fn kill_init(&self) -> Result<()> {
        let pids = self.init_processes();
        assert!(!pids.is_empty(), "found no init of {}", self.testbed.name);
        for pid in &pids {
            Command::new("kill").args(["-9", pid]).status()?;
        }
        let ended = wait_for("init to die", PATIENCE, async || {
            let living: Vec<_> = pids.iter().filter(|pid| is_alive(pid)).collect();
            Ok(Verdict::when(living.is_empty(), || format!("{living:?} live")))
        });
        Ok(ended.await?)
    }

    /// Processes whose command line is the driver's `init` of this testbed.
    fn init_processes(&self) -> Vec<String> {
        let pids =
            fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let is_init = |pid: &String| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            words.first().is_some_and(|word| word.ends_with("/testbed"))
                && words.contains(&self.testbed.name.as_str().into())
                && words.contains(&"init".into())
        };
        pids.filter(is_init).collect()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // A test that ended well has taken its testbed down itself.
        if self.testbed.directory.exists() {
            let evidence = collection::directory_of(&self.testbed.name).unwrap();
            eprintln!(
                "logs of {} saved to {}: {:?}",
                self.testbed.name,
                evidence.display(),
                save_logs(&self.testbed, &evidence)
            );
        }
        if let Err(error) = self.testbed.driver_blocking(&["down"]) {
            eprintln!("could not take {} down: {error:#}", self.testbed.name);
        }
    }
}

fn save_logs(testbed: &Testbed, evidence: &Path) -> Result<()> {
    fs::create_dir_all(evidence)?;
    collection::save_logs(&testbed.logs_directory(), evidence)
}

/// Where the archive of the image of our workloads is; it is made now if it never was.
async fn image_archive() -> Result<String> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/build");
    let mut command = tokio::process::Command::new(build);
    command.arg("valkey-9.1");
    let said = command::run(command).await?.success()?;
    Ok(said.split_whitespace().nth(1).context("images/build named no archive")?.to_owned())
}

/// A zombie is dead; what it waits for is its parent.
fn is_alive(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
