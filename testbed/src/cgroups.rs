//! The testbed's own cgroups, in every hierarchy: kubelets that share a cgroup root kill each other's pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::delegation;
use crate::hierarchies::Hierarchies;
use crate::layout::Testbed;
use crate::patience;

/// Whether pods can be held and limited on this machine.
pub fn check() -> Result<()> {
    match Hierarchies::of_this_machine()? {
        Hierarchies::V2(root) => delegation::check(&root),
        Hierarchies::V1(_) | Hierarchies::Hybrid(..) => Ok(()),
    }
}

pub fn create(testbed: &Testbed) -> Result<()> {
    create_in(&Hierarchies::of_this_machine()?, testbed)
}

fn create_in(hierarchies: &Hierarchies, testbed: &Testbed) -> Result<()> {
    for tree in hierarchies.trees() {
        let top = tree.join(testbed.dir().cgroup());
        make(&top)?;
        if let Hierarchies::V2(root) = hierarchies {
            delegation::pass_on_from_root(root)?;
            delegation::pass_on(&top)?;
        }
        testbed.nodes.iter().try_for_each(|node| make(&top.join(&node.name)))?;
    }
    Ok(())
}

fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make the cgroup {}", path.display()))?;
    // A new cpuset of version 1 is empty, and no process can enter it until it has processors and memory.
    // In version 2 an empty one means its parent's.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let given = path.parent().and_then(|parent| fs::read_to_string(parent.join(file)).ok());
        if let Some(given) = given.filter(|given| !given.trim().is_empty()) {
            fs::write(path.join(file), given)?;
        }
    }
    Ok(())
}

/// Every process in the node's cgroups, as this PID namespace numbers them.
pub fn processes(cgroup: &str, node: &str) -> Result<Vec<i32>> {
    let top = Hierarchies::of_this_machine()?.of_processes().join(cgroup).join(node);
    let mut found = Vec::new();
    for folder in tree(&top) {
        let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    }
    Ok(found)
}

/// Removes the cgroups, waiting for the kernel to let go of processes that were just killed.
pub fn remove(cgroup: &str) -> Result<()> {
    let hierarchies = Hierarchies::of_this_machine()?;
    remove_from(&hierarchies, cgroup)?;
    match hierarchies {
        Hierarchies::V2(root) => delegation::give_back(&root),
        Hierarchies::V1(_) | Hierarchies::Hybrid(..) => Ok(()),
    }
}

fn remove_from(hierarchies: &Hierarchies, cgroup: &str) -> Result<()> {
    let deadline = Instant::now() + patience::seconds(8);
    for hierarchy in hierarchies.trees() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchies::Trees;

    /// Plain folders in the place of a hybrid machine's trees: they are made and removed like cgroups.
    fn hybrid(folder: &Path) -> Hierarchies {
        let all = ["memory", "pids"].map(|name| folder.join(name)).to_vec();
        let unified = folder.join("unified");
        all.iter().chain([&unified]).for_each(|tree| fs::create_dir(tree).unwrap());
        Hierarchies::Hybrid(Trees { all, pids: folder.join("pids") }, unified)
    }

    #[test]
    fn nothing_of_a_testbed_stays_in_any_tree_and_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchies = hybrid(folder.path());
        let (testbed, other) = (Testbed::new("mine", 0, 2), Testbed::new("mine-too", 1, 1));
        create_in(&hierarchies, &testbed).unwrap();
        create_in(&hierarchies, &other).unwrap();
        // What runc and kubelets make below the nodes, in version 2 as well.
        for tree in hierarchies.trees() {
            fs::create_dir_all(tree.join("valkey-testbed-mine/node-2/kubepods/burstable/pod1/container")).unwrap();
        }
        remove_from(&hierarchies, &testbed.dir().cgroup()).unwrap();
        for tree in hierarchies.trees() {
            assert!(!tree.join("valkey-testbed-mine").exists(), "{}", tree.display());
            assert!(tree.join("valkey-testbed-mine-too/node-1").is_dir(), "{}", tree.display());
        }
    }

    #[test]
    fn a_cpuset_of_version_1_starts_with_what_its_parent_has() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cpuset.cpus"), "0-1\n").unwrap();
        fs::write(folder.path().join("cpuset.mems"), "\n").unwrap();
        let child = folder.path().join("child");
        make(&child).unwrap();
        assert_eq!(fs::read_to_string(child.join("cpuset.cpus")).unwrap(), "0-1\n");
        assert!(!child.join("cpuset.mems").exists(), "an empty set is inherited, not written");
    }
}
