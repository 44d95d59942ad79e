//! Reading the API server's audit log from a mark onwards while it grows and is rotated. IO; called by tests through `Test::audit`.

use crate::{
    audit::{self, AuditSelection},
    testbed::Testbed,
};
use anyhow::{Context, Result};
use std::{
    fs::{self, File, Metadata},
    io::{ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone)]
pub struct Audit {
    path: PathBuf,
}

/// A place in the log. The inode is part of it, because rotation gives the file another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    inode: u64,
    offset: u64,
}

impl Audit {
    pub fn of(testbed: &Testbed) -> Self {
        Self::at(testbed.audit_log())
    }

    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The end of the log now. The server writes an entry shortly after it answers: wait for your own entry, do not assume it.
    pub fn mark(&self) -> Result<Mark> {
        let metadata = self.metadata(&self.path)?;
        Ok(Mark { inode: metadata.ino(), offset: metadata.len() })
    }

    pub fn since(&self, mark: Mark) -> Result<AuditSelection> {
        let mut bytes = Vec::new();
        for (path, offset) in self.segments_despite_rotation(mark)? {
            read_from(&path, offset, &mut bytes)?;
        }
        let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(complete);
        let text = String::from_utf8(bytes).context("the audit log is not UTF-8")?;
        let entries = audit::parse(&text).with_context(|| format!("read {}", self.path.display()))?;
        Ok(AuditSelection { entries })
    }

    pub fn all(&self) -> Result<AuditSelection> {
        self.since(Mark { inode: 0, offset: 0 })
    }

    /// A rotation between two looks at the folder hides a file for a moment; the next look sees it under its new name.
    fn segments_despite_rotation(&self, mark: Mark) -> Result<Vec<(PathBuf, u64)>> {
        let files = self.rotated()?;
        match self.segments(mark) {
            Ok(segments) if self.rotated()? == files => Ok(segments),
            _ => self.segments(mark),
        }
    }

    /// The files to read, oldest first: the marked one from its offset, all later ones whole.
    fn segments(&self, mark: Mark) -> Result<Vec<(PathBuf, u64)>> {
        let mut files = self.rotated()?;
        files.push(self.path.clone());
        let mut segments = Vec::new();
        for path in files {
            let metadata = self.metadata(&path)?;
            if metadata.ino() == mark.inode {
                segments.clear();
                // Shorter than the mark means it was cut to nothing and written anew.
                let offset = if metadata.len() < mark.offset { 0 } else { mark.offset };
                segments.push((path, offset));
            } else {
                segments.push((path, 0));
            }
        }
        Ok(segments)
    }

    /// `audit-<time>.log` beside `audit.log`; the time in the name sorts by age.
    fn rotated(&self) -> Result<Vec<PathBuf>> {
        let directory = self.path.parent().context("the audit log is in no folder")?;
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))? {
            let path = entry.with_context(|| format!("list {}", directory.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&format!("{stem}-")) && name.ends_with(".log") {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        fs::metadata(path).with_context(|| format!("look at the audit log {}", path.display()))
    }
}

fn read_from(path: &Path, offset: u64, bytes: &mut Vec<u8>) -> Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        // Old segments are removed by age while we read; what is gone was older than anything a test asks for.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("open {}", path.display())),
    };
    file.seek(SeekFrom::Start(offset)).with_context(|| format!("seek in {}", path.display()))?;
    file.read_to_end(bytes).with_context(|| format!("read {}", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn line(user: &str) -> String {
        format!("{{\"stage\":\"ResponseComplete\",\"verb\":\"get\",\"user\":{{\"username\":\"{user}\"}}}}\n")
    }

    fn append(path: &Path, text: &str) {
        File::options().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn users(audit: &Audit, mark: Mark) -> Vec<String> {
        audit.since(mark).unwrap().entries.into_iter().map(|entry| entry.user).collect()
    }

    #[test]
    fn only_what_came_after_the_mark_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        append(&path, &line("before"));
        let audit = Audit::at(&path);
        let mark = audit.mark().unwrap();
        append(&path, &line("after"));
        assert_eq!(users(&audit, mark), ["after"]);
        assert_eq!(audit.all().unwrap().entries.len(), 2);
    }

    #[test]
    fn a_line_still_being_written_is_left_for_the_next_look() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        append(&path, "");
        let audit = Audit::at(&path);
        let mark = audit.mark().unwrap();
        let (whole, half) = (line("whole"), line("half"));
        let (first, second) = half.split_at(10);
        append(&path, &format!("{whole}{first}"));
        assert_eq!(users(&audit, mark), ["whole"]);
        append(&path, second);
        assert_eq!(users(&audit, mark), ["whole", "half"]);
    }

    #[test]
    fn entries_before_and_after_a_rotation_are_both_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        append(&directory.path().join("audit-2026-01-01T00-00-00.000.log"), &line("ancient"));
        append(&path, &line("before"));
        let audit = Audit::at(&path);
        let mark = audit.mark().unwrap();
        append(&path, &line("rotated"));
        fs::rename(&path, directory.path().join("audit-2026-01-02T00-00-00.000.log")).unwrap();
        append(&path, &line("fresh"));
        assert_eq!(users(&audit, mark), ["rotated", "fresh"]);
    }

    #[test]
    fn a_truncated_log_is_read_from_its_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        append(&path, &line("a very long name that makes the mark lie far behind").repeat(3));
        let audit = Audit::at(&path);
        let mark = audit.mark().unwrap();
        File::options().write(true).truncate(true).open(&path).unwrap();
        append(&path, &line("new"));
        assert_eq!(users(&audit, mark), ["new"]);
    }

    #[test]
    fn a_missing_log_is_an_error_that_names_it() {
        let error = Audit::at("/nonexistent/audit.log").mark().unwrap_err();
        assert!(format!("{error:#}").contains("/nonexistent/audit.log"), "{error:#}");
    }
}
