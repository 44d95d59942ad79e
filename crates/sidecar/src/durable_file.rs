//! Writing a file so that a reader, or a crash, sees the old content or the new and nothing between. IO.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

#[derive(Debug, thiserror::Error)]
#[error("could not write {path}")]
pub struct WriteFile {
    path: String,
    source: io::Error,
}

/// Temporary file, fsync, rename, fsync of the folder.
pub fn write(path: &Path, content: &str) -> Result<(), WriteFile> {
    replace(path, content).map_err(|source| WriteFile { path: path.display().to_string(), source })
}

/// The same, but leaves an equal file alone. True when it wrote.
pub fn write_if_changed(path: &Path, content: &str) -> Result<bool, WriteFile> {
    if fs::read(path).is_ok_and(|now| now == content.as_bytes()) {
        return Ok(false);
    }
    write(path, content).map(|()| true)
}

fn replace(path: &Path, content: &str) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_replaced_and_no_temporary_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("valkey.conf");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_equal_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("valkey.conf");
        assert!(write_if_changed(&path, "one").unwrap());
        assert!(!write_if_changed(&path, "one").unwrap());
        assert!(write_if_changed(&path, "two").unwrap());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = write(Path::new("/nowhere/valkey.conf"), "").unwrap_err();
        assert!(error.to_string().contains("/nowhere/valkey.conf"));
    }
}
