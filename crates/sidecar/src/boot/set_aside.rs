//! A node that is to start afresh: what it had is moved into a folder of its own on the same volume. Nothing is deleted. IO.

use super::leave_note;
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// What makes a node what it is.
const BELONGINGS: [&str; 4] = ["nodes.conf", "dump.rdb", "appendonlydir", leave_note::FILE];

/// Where it is now; `None` when there was nothing.
pub fn set_aside(data_dir: &Path) -> io::Result<Option<PathBuf>> {
    let there: Vec<PathBuf> = BELONGINGS.iter().map(|name| data_dir.join(name)).filter(|path| path.exists()).collect();
    if there.is_empty() {
        return Ok(None);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let folder = data_dir.join(format!("set-aside-{}", now.as_millis()));
    fs::create_dir(&folder)?;
    // The identity first: data without it is never taken for a primary's that came back.
    for path in there {
        fs::rename(&path, folder.join(path.file_name().unwrap_or_default()))?;
    }
    fs::File::open(&folder)?.sync_all()?;
    fs::File::open(data_dir)?.sync_all()?;
    Ok(Some(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_moved_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(set_aside(folder.path()).unwrap(), None);
        for name in ["nodes.conf", "dump.rdb", "sidecar-record.json"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let kept = set_aside(folder.path()).unwrap().unwrap();
        assert_eq!(fs::read_to_string(kept.join("dump.rdb")).unwrap(), "dump.rdb");
        assert!(kept.join("nodes.conf").exists() && !folder.path().join("nodes.conf").exists());
        assert!(folder.path().join("sidecar-record.json").exists());
    }
}
