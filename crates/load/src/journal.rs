//! Acknowledgements in a file, a line each, written before they count: a checker that is killed loses none of them, and
//! `valkey-load check` reads them back. IO.

use crate::written::{Run, Written};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Mutex,
};

const TITLE: &str = "valkey-load journal 1";

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("could not write the journal {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("could not read the journal {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is no journal of valkey-load: line {line} reads {text:?}")]
    Malformed { path: PathBuf, line: usize, text: String },
}

pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// A new file; an existing one is refused, since it may be the only memory of a run.
    pub fn create(path: &Path, run: &Run) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Write { path: path.to_owned(), source };
        let mut file = File::create_new(path).map_err(failed)?;
        writeln!(file, "{TITLE} {} {}", run.name, run.value_size).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// One write to the kernel, which keeps it when this process dies.
    pub fn append(&self, written: &Written, node: SocketAddr) -> Result<(), JournalError> {
        let Written { sequence, slot, at_ms, .. } = written;
        let line = format!("{sequence} {slot} {at_ms} {node}\n");
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        file.write_all(line.as_bytes()).map_err(|source| JournalError::Write { path: self.path.clone(), source })
    }
}

/// What a journal tells: the run and what it had acknowledged, with the nodes that the entries point to.
#[derive(Debug, PartialEq, Eq)]
pub struct Memory {
    pub run: Run,
    pub written: Vec<Written>,
    pub nodes: Vec<SocketAddr>,
}

pub fn read(path: &Path) -> Result<Memory, JournalError> {
    let failed = |source| JournalError::Read { path: path.to_owned(), source };
    let mut lines = BufReader::new(File::open(path).map_err(failed)?).lines();
    let malformed = |line, text| JournalError::Malformed { path: path.to_owned(), line, text };
    let title = lines.next().transpose().map_err(failed)?.unwrap_or_default();
    let run = parse_title(&title).ok_or_else(|| malformed(1, title.clone()))?;
    let mut memory = Memory { run, written: Vec::new(), nodes: Vec::new() };
    let mut last_problem = None;
    for (number, line) in (2..).zip(lines) {
        // Only the last line may be cut off, by the end of its writer.
        if let Some(problem) = last_problem {
            return Err(problem);
        }
        let line = line.map_err(failed)?;
        last_problem = memory.learn(&line).is_none().then(|| malformed(number, line));
    }
    Ok(memory)
}

fn parse_title(line: &str) -> Option<Run> {
    let (name, size) = line.strip_prefix(TITLE)?.trim().split_once(' ')?;
    Some(Run { name: name.to_owned(), value_size: size.parse().ok()? })
}

impl Memory {
    fn learn(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let sequence = words.next()?.parse().ok()?;
        let slot = words.next()?.parse().ok()?;
        let at_ms = words.next()?.parse().ok()?;
        let node = index_of(&mut self.nodes, words.next()?.parse().ok()?);
        self.written.push(Written { sequence, slot, node, at_ms });
        Some(())
    }
}

/// The place of a node in the list, which it is added to when it is new.
pub fn index_of(nodes: &mut Vec<SocketAddr>, node: SocketAddr) -> u16 {
    let place = nodes.iter().position(|known| *known == node).unwrap_or_else(|| {
        nodes.push(node);
        nodes.len() - 1
    });
    u16::try_from(place).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(name: &str) -> (tempfile::TempDir, PathBuf, Run, Vec<Written>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let run = Run::new(64);
        let journal = Journal::create(&path, &run).unwrap();
        let node = SocketAddr::from(([127, 0, 0, 1], 7000));
        let written: Vec<_> = (0..3).map(|sequence| Written { sequence, slot: 9, node: 0, at_ms: 10 }).collect();
        written.iter().for_each(|written| journal.append(written, node).unwrap());
        (folder, path, run, written)
    }

    #[test]
    fn what_was_appended_is_read_back() {
        let (_folder, path, run, written) = journal("j");
        let nodes = vec![SocketAddr::from(([127, 0, 0, 1], 7000))];
        assert_eq!(read(&path).unwrap(), Memory { run, written, nodes });
    }

    #[test]
    fn a_line_cut_off_at_the_end_is_left_out_and_one_in_the_middle_is_an_error() {
        let (_folder, path, _, written) = journal("j");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}3 9")).unwrap();
        assert_eq!(read(&path).unwrap().written, written);
        std::fs::write(&path, format!("{text}3 9\n4 9 10 127.0.0.1:7000\n")).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("line 5 reads \"3 9\""));
    }

    #[test]
    fn an_existing_file_is_neither_overwritten_nor_taken_for_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        std::fs::write(&path, "dear diary").unwrap();
        assert!(Journal::create(&path, &Run::new(1)).is_err());
        assert!(read(&path).unwrap_err().to_string().contains("no journal"));
    }
}
