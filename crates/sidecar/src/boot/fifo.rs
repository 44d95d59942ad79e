//! The FIFO that a starting Valkey reads its configuration from. IO; the boot guard calls it.
//!
//! Opening the writing end is what lets the reader go on, and closing it without writing would start a Valkey with no
//! configuration at all. So it is opened only after the decision, and what is written is one short line: the kernel
//! takes that whole or not at all.

use rustix::{
    fs::{CWD, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileTypeExt,
    path::Path,
};

#[derive(Debug, thiserror::Error)]
pub enum FifoError {
    #[error("could not make the FIFO {path}")]
    Make { path: String, source: io::Error },
    #[error("could not write to the FIFO {path}")]
    Write { path: String, source: io::Error },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    Read,
    NoReader,
}

/// Puts a FIFO there if there is none: a fresh pod, an older sidecar's file, or what CONFIG REWRITE left in its place.
pub fn ensure(path: &Path) -> Result<(), FifoError> {
    if is_gate(path) {
        return Ok(());
    }
    put(path).map_err(|source| FifoError::Make { path: path.display().to_string(), source })
}

pub fn is_gate(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_fifo())
}

fn put(path: &Path) -> io::Result<()> {
    let new = path.with_extension("fifo");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let readable_by_all = Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(CWD, &new, FileType::Fifo, readable_by_all, 0)?;
    fs::rename(&new, path)
}

/// A process that waits for its line; it reads nothing before `send`.
pub struct Reader<'a> {
    file: File,
    path: &'a Path,
}

impl Reader<'_> {
    pub fn send(mut self, line: &str) -> Result<Served, FifoError> {
        match self.file.write_all(line.as_bytes()) {
            Ok(()) => Ok(Served::Read),
            Err(error) => no_reader_or(self.path, error).map(|()| Served::NoReader),
        }
    }
}

/// Lets a reader that waits go on with this line.
pub fn serve(path: &Path, line: &str) -> Result<Served, FifoError> {
    reader(path)?.map_or(Ok(Served::NoReader), |reader| reader.send(line))
}

/// A reader has to be sent something soon: if this process ends before that, it reads an empty configuration.
pub fn reader(path: &Path) -> Result<Option<Reader<'_>>, FifoError> {
    match open(path) {
        Ok(file) => Ok(Some(Reader { file, path })),
        Err(error) => no_reader_or(path, error).map(|()| None),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let opened = rustix::fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let file = File::from(opened);
    match file.metadata()?.file_type().is_fifo() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a FIFO any more")),
    }
}

/// No process has it open for reading, or the one that had it has died.
fn no_reader_or(path: &Path, error: io::Error) -> Result<(), FifoError> {
    match Errno::from_io_error(&error) {
        Some(Errno::NXIO | Errno::PIPE) => Ok(()),
        _ => Err(FifoError::Write { path: path.display().to_string(), source: error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn place() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("valkey.conf");
        (folder, path)
    }

    #[test]
    fn a_reader_gets_the_line_once_there_is_one() {
        let (_folder, path) = place();
        ensure(&path).unwrap();
        assert_eq!(serve(&path, "hz 10\n").unwrap(), Served::NoReader);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).unwrap()
        });
        let until = Instant::now() + Duration::from_secs(5);
        while serve(&path, "hz 10\n").unwrap() == Served::NoReader && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), "hz 10\n");
        assert_eq!(serve(&path, "hz 10\n").unwrap(), Served::NoReader);
    }

    #[test]
    fn a_reader_that_has_come_reads_nothing_before_it_is_sent_something() {
        let (_folder, path) = place();
        ensure(&path).unwrap();
        let reading = std::thread::spawn({
            let path = path.clone();
            move || (fs::read_to_string(path).unwrap(), Instant::now())
        });
        let mut come = None;
        while come.is_none() {
            come = reader(&path).unwrap();
        }
        let sent = Instant::now();
        assert_eq!(come.unwrap().send("hz 10\n").unwrap(), Served::Read);
        let (line, read) = reading.join().unwrap();
        assert!(line == "hz 10\n" && read >= sent);
    }

    #[test]
    fn a_file_in_its_place_is_replaced_and_never_written_to() {
        let (_folder, path) = place();
        fs::write(&path, "left by CONFIG REWRITE").unwrap();
        assert!(serve(&path, "x").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "left by CONFIG REWRITE");
        ensure(&path).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
    }
}
