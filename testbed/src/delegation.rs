//! Version 2 of cgroups only: who may have which controllers. A cgroup gets a controller when its parent passes it on, and one
//! that holds processes itself passes none on. Only the root of the whole machine is exempt.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::hierarchies::require;

/// A kubelet refuses a cgroup root that lacks one of these if the machine has it. More of them runc asks for itself.
const PASSED_ON: [&str; 5] = ["cpu", "cpuset", "hugetlb", "memory", "pids"];

/// Holds what was in the root before, while testbeds are there.
const ASIDE: &str = "beside-valkey-testbeds";

const CONTROLLERS: &str = "cgroup.controllers";
const PASSES_ON: &str = "cgroup.subtree_control";
const PROCESSES: &str = "cgroup.procs";

/// Refuses a root to which the machine gives too little.
pub fn check(root: &Path) -> Result<()> {
    let has = words(&root.join(CONTROLLERS))?;
    require(|needed| has.iter().any(|name| name == needed))
}

/// Passes the controllers of a cgroup on to its children.
pub fn pass_on(folder: &Path) -> Result<()> {
    try_pass_on(folder).with_context(|| format!("cannot enable controllers below the cgroup {}", folder.display()))
}

/// The same for the root of the tree. In a container that is an ordinary cgroup with the container's processes in it,
/// which then move aside, as they do for every container manager inside a container.
pub fn pass_on_from_root(root: &Path) -> Result<()> {
    match try_pass_on(root) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            let aside = root.join(ASIDE);
            fs::create_dir_all(&aside).with_context(|| format!("cannot make the cgroup {}", aside.display()))?;
            move_processes(root, &aside)?;
            pass_on(root)
        }
        other => other.with_context(|| format!("cannot enable controllers below the cgroup {}", root.display())),
    }
}

/// Moves back what moved aside, unless others have made cgroups there meanwhile.
pub fn give_back(root: &Path) -> Result<()> {
    let aside = root.join(ASIDE);
    if children(root) != [aside.clone()] || !children(&aside).is_empty() {
        return Ok(());
    }
    let control = root.join(PASSES_ON);
    fs::write(&control, marked('-', &words(&control)?))
        .with_context(|| format!("cannot write {}", control.display()))?;
    move_processes(&aside, root)?;
    fs::remove_dir(&aside).with_context(|| format!("cannot remove the cgroup {}", aside.display()))
}

fn try_pass_on(folder: &Path) -> io::Result<()> {
    let mut names: Vec<String> =
        fs::read_to_string(folder.join(CONTROLLERS))?.split_whitespace().map(str::to_owned).collect();
    names.retain(|name| PASSED_ON.contains(&name.as_str()));
    fs::write(folder.join(PASSES_ON), marked('+', &names))
}

fn marked(sign: char, names: &[String]) -> String {
    names.iter().map(|name| format!("{sign}{name}")).collect::<Vec<_>>().join(" ")
}

/// A process that starts others while it moves takes more than one round.
fn move_processes(from: &Path, to: &Path) -> Result<()> {
    let mut refusal = None;
    for _ in 0..100 {
        let pids = words(&from.join(PROCESSES))?;
        if pids.is_empty() {
            return Ok(());
        }
        for pid in pids {
            refusal = fs::write(to.join(PROCESSES), pid).err().or(refusal);
        }
    }
    let reason = refusal.map_or_else(|| "more keep coming".to_owned(), |error| error.to_string());
    bail!("cannot move the processes of the cgroup {} to {}: {reason}", from.display(), to.display())
}

fn words(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
