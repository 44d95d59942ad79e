//! What lies in the data directory, and what follows for the next start. IO to read, pure to decide.
//!
//! Valkey with `appendonly yes` reads only the append-only files: with none there it starts empty, whatever dump.rdb
//! holds, and its next save overwrites dump.rdb with nothing. With `appendonly no` it reads only dump.rdb, however old.
//! So the next start follows what is authoritative on disk, and the wish is fulfilled afterwards on the running server.
//! A manifest in appendonlydir means that the append-only files are authoritative, unless the record says that a snapshot
//! took their place: `append_only` keeps that true.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

const DIRECTORY: &str = "appendonlydir";
const MANIFEST: &str = "appendonlydir/appendonly.aof.manifest";
const RETIRED: &str = "appendonlydir.retired";
const DUMP: &str = "dump.rdb";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFolder {
    pub dump: bool,
    pub append_only_files: bool,
}

impl DataFolder {
    pub fn read(data_dir: &Path) -> Self {
        Self { dump: data_dir.join(DUMP).exists(), append_only_files: data_dir.join(MANIFEST).exists() }
    }

    /// The value of `appendonly` that loses nothing at the next start.
    pub fn start_with_append_only(self, wanted: bool, replaced: bool) -> bool {
        match (self.append_only_files && !replaced, self.dump) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => wanted,
        }
    }
}

/// Changes whenever a snapshot has been finished: Valkey renames the new file over the old.
pub fn snapshot_identity(data_dir: &Path) -> Option<u64> {
    fs::metadata(data_dir.join(DUMP)).ok().map(|data| data.ino())
}

/// When any of the append-only files was last written to.
pub fn last_write(data_dir: &Path) -> Option<SystemTime> {
    let files = fs::read_dir(data_dir.join(DIRECTORY)).ok()?;
    files.filter_map(|file| file.ok()?.metadata().ok()?.modified().ok()).max()
}

/// Takes append-only files that are no longer written out of Valkey's sight. The rename is the decision; what is removed
/// after it is older than the snapshot that replaced it.
pub fn retire_append_only_files(data_dir: &Path) -> io::Result<()> {
    let retired: PathBuf = data_dir.join(RETIRED);
    remove_if_there(&retired)?;
    fs::rename(data_dir.join(DIRECTORY), &retired)?;
    fs::File::open(data_dir)?.sync_all()?;
    remove_if_there(&retired)
}

fn remove_if_there(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_follows_what_holds_the_data_and_the_wish_only_when_nothing_does() {
        let cases = [
            // dump, append-only files, wanted, start with
            (false, false, true, true),
            (false, false, false, false),
            (true, false, true, false),
            (true, false, false, false),
            (false, true, false, true),
            (true, true, false, true),
            (true, true, true, true),
        ];
        for (dump, append_only_files, wanted, expected) in cases {
            let folder = DataFolder { dump, append_only_files };
            assert_eq!(folder.start_with_append_only(wanted, false), expected, "{folder:?} wanted {wanted}");
        }
        let replaced = DataFolder { dump: true, append_only_files: true };
        assert!(!replaced.start_with_append_only(true, true));
    }

    #[test]
    fn a_folder_without_manifest_holds_no_append_only_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(DIRECTORY)).unwrap();
        assert!(!DataFolder::read(folder.path()).append_only_files);
        fs::write(folder.path().join(MANIFEST), "").unwrap();
        assert!(DataFolder::read(folder.path()).append_only_files);
    }

    #[test]
    fn retired_files_are_gone_even_when_an_earlier_try_was_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(RETIRED)).unwrap();
        fs::create_dir(folder.path().join(DIRECTORY)).unwrap();
        fs::write(folder.path().join(MANIFEST), "").unwrap();
        retire_append_only_files(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
