//! Switching the append-only file on and off on a running server without a moment in which a restart would load too
//! little. One step per call, each safe to repeat: what is on disk says how far it got. IO; the agent's loop calls it.

use super::{
    data_folder::{self, DataFolder},
    record::{Record, SaveRecord},
};
use crate::volume;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    time::{Duration, Instant},
};
use valkey::{CallError, Connection, Info};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    #[default]
    Settled,
    /// Switched on; the first append-only file is being written.
    WritingFirstFile,
    /// Switched off; a snapshot that takes its data is being written.
    WritingSnapshot,
}

#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    #[error("{0}")]
    Call(#[from] CallError),
    #[error("could not note that a snapshot took the data of the append-only files")]
    Note(#[source] SaveRecord),
    #[error("could not retire the append-only files")]
    Retire(#[source] io::Error),
    #[error("could not read the data volume")]
    Read(#[source] io::Error),
}

/// A snapshot that failed, most likely for want of room, is not asked for again at once.
const PAUSE_BETWEEN_SNAPSHOTS: Duration = Duration::from_secs(5);

/// What the steps have to remember between calls; losing it only costs another snapshot.
#[derive(Debug, Default)]
pub struct Switch {
    asked: Option<Asked>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    /// Identity of dump.rdb when the snapshot that takes the data of the append-only files was asked for.
    before: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    SwitchOn,
    SwitchOff,
    AskForSnapshot,
    Wait(Progress),
    /// From here on the next start reads the snapshot.
    NoteReplaced,
    Retire,
}

/// Where the replacement of append-only files by a snapshot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replacement {
    NotAskedFor,
    Unfinished,
    Finished,
    Noted,
}

fn next_step(wanted: bool, info: &Info, files: bool, replacement: Replacement) -> Step {
    let saving = info.flag("rdb_bgsave_in_progress");
    let rewriting = info.flag("aof_rewrite_in_progress") || info.flag("aof_rewrite_scheduled");
    match (info.flag("aof_enabled"), files) {
        (true, _) if !wanted => Step::SwitchOff,
        (true, false) if rewriting => Step::Wait(Progress::WritingFirstFile),
        (true, _) => Step::Nothing,
        (false, false) if wanted => Step::SwitchOn,
        (false, false) => Step::Nothing,
        // Files that are no longer written are behind the server's memory, whatever is wanted next.
        (false, true) if replacement == Replacement::Noted => Step::Retire,
        (false, true) if saving => Step::Wait(Progress::WritingSnapshot),
        (false, true) if replacement == Replacement::Finished => Step::NoteReplaced,
        (false, true) => Step::AskForSnapshot,
    }
}

impl Switch {
    /// `info` is the server's persistence section. Call again until `Settled`, writing valkey.conf after each call: it is
    /// what makes the next start read the snapshot before the files are taken away.
    pub async fn advance(
        &mut self,
        connection: &mut Connection,
        info: &Info,
        data: DataDirectory<'_>,
        wanted: bool,
    ) -> Result<Progress, SwitchError> {
        let DataDirectory { path: data_dir, record } = data;
        let (identity, files) = read(data_dir).await?;
        if !files && record.append_only_replaced {
            note(record, data_dir, false).await?;
        }
        match next_step(wanted, info, files, self.replacement(info, identity, record)) {
            Step::Nothing => return Ok(Progress::Settled),
            Step::Wait(progress) => return Ok(progress),
            Step::SwitchOn => return set(connection, "yes").await.map(|()| Progress::WritingFirstFile),
            Step::SwitchOff => set(connection, "no").await?,
            Step::AskForSnapshot => self.ask_for_snapshot(connection, identity).await?,
            Step::NoteReplaced => note(record, data_dir, true).await?,
            Step::Retire => self.retire(data_dir).await?,
        }
        Ok(Progress::WritingSnapshot)
    }

    fn replacement(&self, info: &Info, identity: Option<u64>, record: &Record) -> Replacement {
        let succeeded = info.text("rdb_last_bgsave_status") == Some("ok");
        match self.asked {
            _ if record.append_only_replaced => Replacement::Noted,
            None => Replacement::NotAskedFor,
            Some(asked) if identity.is_some() && asked.before != identity && succeeded => Replacement::Finished,
            Some(_) => Replacement::Unfinished,
        }
    }

    async fn ask_for_snapshot(
        &mut self,
        connection: &mut Connection,
        identity: Option<u64>,
    ) -> Result<(), SwitchError> {
        if self.asked.is_none_or(|asked| asked.at.elapsed() > PAUSE_BETWEEN_SNAPSHOTS) {
            connection.background_save().await?;
            self.asked = Some(Asked { at: Instant::now(), before: identity });
        }
        Ok(())
    }

    async fn retire(&mut self, data_dir: &Path) -> Result<(), SwitchError> {
        self.asked = None;
        let folder = data_dir.to_owned();
        let retired = volume::work(move || data_folder::retire_append_only_files(&folder)).await;
        retired.flatten().map_err(SwitchError::Retire)?;
        tracing::info!("append-only files removed; the snapshot written since holds their data");
        Ok(())
    }
}

/// The data directory and what is known about it.
pub struct DataDirectory<'a> {
    pub path: &'a Path,
    pub record: &'a mut Record,
}

/// The snapshot's identity, and whether there are append-only files.
async fn read(data_dir: &Path) -> Result<(Option<u64>, bool), SwitchError> {
    let folder = data_dir.to_owned();
    let read = move || (data_folder::snapshot_identity(&folder), DataFolder::read(&folder).append_only_files);
    volume::work(read).await.map_err(SwitchError::Read)
}

async fn note(record: &mut Record, data_dir: &Path, replaced: bool) -> Result<(), SwitchError> {
    record.append_only_replaced = replaced;
    record.save(data_dir).await.map_err(SwitchError::Note)
}

async fn set(connection: &mut Connection, value: &str) -> Result<(), SwitchError> {
    let values = BTreeMap::from([("appendonly".to_owned(), value.to_owned())]);
    connection.config_set(&values).await?;
    tracing::info!(parameter = "appendonly", value, "parameter set");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Replacement::{Finished, NotAskedFor, Noted, Unfinished};

    fn step(wanted: bool, info: &str, files: bool, replacement: Replacement) -> Step {
        next_step(wanted, &Info::parse(info), files, replacement)
    }

    #[test]
    fn switching_on_waits_for_the_first_file() {
        assert_eq!(step(true, "aof_enabled:0", false, NotAskedFor), Step::SwitchOn);
        let rewriting = "aof_enabled:1\naof_rewrite_in_progress:1";
        assert_eq!(step(true, rewriting, false, NotAskedFor), Step::Wait(Progress::WritingFirstFile));
        assert_eq!(step(true, rewriting, true, NotAskedFor), Step::Nothing);
        assert_eq!(step(true, "aof_enabled:1", true, NotAskedFor), Step::Nothing);
    }

    #[test]
    fn switching_off_retires_the_files_only_after_a_snapshot_was_written_and_noted() {
        let off = "aof_enabled:0";
        assert_eq!(step(false, "aof_enabled:1", true, NotAskedFor), Step::SwitchOff);
        let saving = "aof_enabled:0\nrdb_bgsave_in_progress:1";
        assert_eq!(step(false, saving, true, NotAskedFor), Step::Wait(Progress::WritingSnapshot));
        assert_eq!(step(false, off, true, NotAskedFor), Step::AskForSnapshot);
        assert_eq!(step(false, off, true, Unfinished), Step::AskForSnapshot);
        assert_eq!(step(false, off, true, Finished), Step::NoteReplaced);
        assert_eq!(step(false, off, true, Noted), Step::Retire);
        assert_eq!(step(false, off, false, NotAskedFor), Step::Nothing);
    }

    #[test]
    fn stale_files_are_replaced_first_even_when_the_wish_has_turned_again() {
        assert_eq!(step(true, "aof_enabled:0", true, NotAskedFor), Step::AskForSnapshot);
        assert_eq!(step(true, "aof_enabled:0", true, Noted), Step::Retire);
    }
}
