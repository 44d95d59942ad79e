//! Reading settings.json and noticing that it changed. IO; the agent's loop calls it.

use api::node_settings::{self, NodeSettings, SETTINGS_VERSION};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum ReadSettings {
    #[error("could not read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is not valid: {source}")]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error(
        "{path} has settingsVersion {found}, this sidecar knows up to {SETTINGS_VERSION}: give the pods a newer sidecar image"
    )]
    TooNew { path: PathBuf, found: u32 },
}

pub fn read(path: &Path) -> Result<NodeSettings, ReadSettings> {
    read_with_revision(path).map(|(settings, _)| settings)
}

pub fn read_with_revision(path: &Path) -> Result<(NodeSettings, String), ReadSettings> {
    let text = fs::read_to_string(path).map_err(|source| ReadSettings::Read { path: path.into(), source })?;
    let settings = parse(path, &text)?;
    match settings.is_understood() {
        true => Ok((settings, node_settings::revision(&text))),
        false => Err(ReadSettings::TooNew { path: path.into(), found: settings.settings_version }),
    }
}

fn parse(path: &Path, text: &str) -> Result<NodeSettings, ReadSettings> {
    serde_json::from_str(text).map_err(|source| ReadSettings::Parse { path: path.into(), source })
}

/// Identity of the file's present content. The kubelet swaps a symbolic link above it, so the inode behind the path
/// changes; one `stat` a second costs less than an inotify watch that has to follow that link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(Option<(u64, u64, i64, i64, u64)>);

pub fn stamp(path: &Path) -> Stamp {
    Stamp(fs::metadata(path).ok().map(|data| (data.dev(), data.ino(), data.mtime(), data.mtime_nsec(), data.size())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const VALID: &str = r#"{"settingsVersion":1,"cluster":"poc","namespace":"default","headlessService":"poc-headless",
        "valkeyVersion":"9.1.2","masterCount":3,"replicasPerMaster":1,"persistentVolume":true,"parameters":{}}"#;

    #[test]
    fn each_way_a_file_can_be_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        assert!(matches!(read(&path), Err(ReadSettings::Read { .. })));
        fs::write(&path, "{").unwrap();
        assert!(matches!(read(&path), Err(ReadSettings::Parse { .. })));
        fs::write(&path, VALID.replace("\"settingsVersion\":1", "\"settingsVersion\":7")).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("newer sidecar image"));
        fs::write(&path, VALID).unwrap();
        assert_eq!(read(&path).unwrap().cluster, "poc");
    }

    #[test]
    fn the_swap_of_the_link_above_the_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["one", "two"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("settings.json"), VALID).unwrap();
        }
        symlink("one", at("..data")).unwrap();
        symlink("..data/settings.json", at("settings.json")).unwrap();
        let before = stamp(&at("settings.json"));
        assert_eq!(before, stamp(&at("settings.json")));
        symlink("two", at("..new")).unwrap();
        fs::rename(at("..new"), at("..data")).unwrap();
        assert_ne!(before, stamp(&at("settings.json")));
    }
}
