//! The testbed's own cgroups, in every v1 hierarchy: kubelets that share a cgroup root kill each other's pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::layout::Testbed;

pub const ROOT: &str = "/sys/fs/cgroup";

fn hierarchies() -> Vec<PathBuf> {
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
    // Several names may be links to one hierarchy (cpu,cpuacct), and `unified` is version 2.
    let own =
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != "unified");
    own.map(|entry| entry.path()).collect()
}

pub fn create(testbed: &Testbed) -> Result<()> {
    for hierarchy in hierarchies() {
        let top = hierarchy.join(testbed.dir().cgroup());
        make(&top)?;
        testbed.nodes.iter().try_for_each(|node| make(&top.join(&node.name)))?;
    }
    Ok(())
}

fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make the cgroup {}", path.display()))?;
    // A new cpuset is empty, and no process can enter it until it has processors and memory.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let parent = path.parent().map(|parent| parent.join(file)).filter(|file| file.exists());
        if let Some(parent) = parent {
            fs::write(path.join(file), fs::read(parent)?)?;
        }
    }
    Ok(())
}

/// Every process in the node's (or, with an empty name, the testbed's) cgroups, as this PID namespace numbers them.
pub fn processes(cgroup: &str, node: &str) -> Vec<i32> {
    let top = Path::new(ROOT).join("pids").join(cgroup).join(node);
    let mut found = Vec::new();
    for folder in tree(&top) {
        let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    }
    found
}

/// Removes the cgroups, waiting for the kernel to let go of processes that were just killed.
pub fn remove(cgroup: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(8);
    for hierarchy in hierarchies() {
        let top = hierarchy.join(cgroup);
        while top.is_dir() {
            let refusals: Vec<_> =
                tree(&top).into_iter().rev().filter_map(|folder| fs::remove_dir(&folder).err()).collect();
            if let Some(error) = refusals.first().filter(|_| Instant::now() > deadline) {
                bail!("the cgroup {} cannot be removed: {error}", top.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// The folder and all below it, parents before children.
fn tree(top: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    let mut open = if top.is_dir() { vec![top.to_owned()] } else { vec![] };
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        open.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()),
        );
        found.push(folder);
    }
    found
}
