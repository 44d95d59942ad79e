//! Debian's package manager. What it says goes into a log: without a network that is hundreds of lines.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::cache;
use crate::interrupt::uninterrupted;

const REACH: &str = "Debian packages cannot be downloaded: check the network and /etc/apt";

pub fn update() -> Result<()> {
    run(Command::new("apt-get").args(["update", "-qq"])).context(REACH)
}

/// Brings the files of packages into a folder and installs nothing.
pub fn download(packages: &[&str], into: &Path) -> Result<()> {
    let mut apt = Command::new("apt-get");
    // The sandbox user of apt cannot write into root's cache; fetching as root is what it falls back to anyway.
    apt.current_dir(into).args(["-o", "APT::Sandbox::User=root", "download", "-qq"]).args(packages);
    run(&mut apt).context(REACH)
}

pub fn install(packages: &[&str]) -> Result<()> {
    // A machine that has only just started may be updating itself.
    let options = ["install", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];
    run(Command::new("apt-get").args(options).arg("--download-only").args(packages)).context(REACH)?;
    // Cut short while it unpacks, dpkg would have to be repaired by hand.
    uninterrupted(|| run(Command::new("apt-get").args(options).args(packages).process_group(0)))
        .with_context(|| format!("packages cannot be installed: install by hand {}", packages.join(" ")))
}

fn run(apt: &mut Command) -> Result<()> {
    let log = cache::root().join("apt.log");
    fs::create_dir_all(cache::root()).with_context(|| format!("cannot make {}", cache::root().display()))?;
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let status = apt.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).status();
    ensure!(status.context("cannot start apt-get")?.success(), "all that apt-get said is in {}", log.display());
    Ok(())
}
