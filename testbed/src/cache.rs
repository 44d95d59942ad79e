//! The cache of what is built, outside the tree: `<cache>/<kind>/<name>-<key>/`, where the key is a hash of all inputs.
//! An entry appears whole or not at all: it is made under a temporary name and renamed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

/// Temporary folders of entries that this process began to make.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

pub fn root() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    let base = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    base.join("valkey-operator")
}

/// A hash over named inputs.
#[derive(Default)]
pub struct Key(Sha256);

impl Key {
    pub fn text(mut self, text: &str) -> Self {
        self.0.update(text.as_bytes());
        self.0.update([0]);
        self
    }

    pub fn file(self, path: &Path) -> Result<Self> {
        let content = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(self.text(&path.file_name().unwrap_or_default().to_string_lossy()).text(&content))
    }

    pub fn finish(self) -> String {
        self.0.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The entry's folder; `make` fills it when it is not there yet. Older entries of the same name are removed.
pub fn entry(kind: &str, name: &str, key: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let shelf = root().join(kind);
    fs::create_dir_all(&shelf).with_context(|| format!("cannot make {}", shelf.display()))?;
    let done = shelf.join(format!("{name}-{key}"));
    if done.is_dir() {
        return Ok(done);
    }
    let lock = fs::File::create(shelf.join(format!(".{name}.lock")))?;
    flock(&lock, FlockOperation::LockExclusive).context("cannot lock the cache")?;
    if done.is_dir() {
        return Ok(done);
    }
    let fresh = shelf.join(format!(".{name}.new"));
    remove_dir(&fresh)?;
    fs::create_dir(&fresh)?;
    unfinished().push(fresh.clone());
    if let Err(error) = make(&fresh) {
        let _ = remove_dir(&fresh);
        return Err(error);
    }
    prune(&shelf, name)?;
    fs::rename(&fresh, &done)?;
    Ok(done)
}

/// What an interrupted process was making is of no use to the next one.
pub fn drop_unfinished() {
    for folder in unfinished().drain(..) {
        let _ = remove_dir(&folder);
    }
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn prune(shelf: &Path, name: &str) -> Result<()> {
    for entry in fs::read_dir(shelf)?.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let key = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        if key.is_some_and(|key| key.len() == 16 && key.chars().all(|c| c.is_ascii_hexdigit())) {
            remove_dir(&entry.path())?;
        }
    }
    Ok(())
}

pub fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
