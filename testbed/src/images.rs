//! Bringing container images onto the nodes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use crate::cache::Key;
use crate::command::{finish, run};
use crate::layout::{Dir, Node, Testbed};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Archive {
    pub reference: String,
    pub path: PathBuf,
}

/// The image of the container that holds a pod's namespaces; no pod starts without it.
pub fn pause() -> Result<Archive> {
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/build");
    let mut command = Command::new(recipe);
    command.arg("pause").stderr(std::process::Stdio::inherit());
    let said = finish(&mut command).context("cannot make the pause image")?;
    let (reference, path) = said.trim().split_once(' ').context("images/build did not say where the pause image is")?;
    Ok(Archive { reference: reference.to_owned(), path: path.into() })
}

/// Brings archives onto all nodes, each node at its own pace; what a node has already is not brought again.
pub fn load(testbed: &Testbed, archives: &[PathBuf], say: impl Fn(&str) + Sync) -> Result<()> {
    for archive in archives {
        ensure!(
            archive.is_file(),
            "there is no archive {}; images/build prints where it leaves them",
            archive.display()
        );
    }
    thread::scope(|scope| {
        let all: Vec<_> =
            testbed.nodes.iter().map(|node| scope.spawn(|| load_node(testbed, node, archives, &say))).collect();
        all.into_iter().try_for_each(|handle| handle.join().map_err(|_| anyhow!("loading went wrong"))?)
    })
}

fn load_node(testbed: &Testbed, node: &Node, archives: &[PathBuf], say: &impl Fn(&str)) -> Result<()> {
    let dir = testbed.dir();
    for archive in archives {
        let record = dir.file(format!("{}/loaded-{}", node.name, identity(archive)?));
        if !record.exists() {
            import(&dir, node, archive)?;
            fs::write(record, "")?;
            say(&format!("{} is on {}", archive.display(), node.name));
        }
    }
    Ok(())
}

/// An archive is known by its path, size and time: hashing hundreds of megabytes would cost more than loading them.
fn identity(archive: &Path) -> Result<String> {
    let archive = archive.canonicalize()?;
    let meta = archive.metadata()?;
    let modified = meta.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    Ok(Key::default().text(&archive.to_string_lossy()).text(&format!("{} {modified}", meta.len())).finish())
}

pub fn import(dir: &Dir, node: &Node, archive: &Path) -> Result<()> {
    let socket = dir.containerd_socket(&node.name);
    let path = archive.to_string_lossy();
    run(
        &dir.binary("ctr"),
        &["--address", &socket, "--namespace", "k8s.io", "images", "import", "--snapshotter", "overlayfs", &path],
    )
    .with_context(|| {
        format!("{} does not take {path}; see {}", node.name, dir.log(&format!("{}-containerd", node.name)).display())
    })
    .map(drop)
}
