//! The agent's configuration file, written by the testbed driver. IO in `read`, the rest is pure.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::policy::cidr::Cidr;

/// What the driver tells the agent about this testbed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Folder that holds the disk images and their mount points.
    pub volumes_dir: PathBuf,
    pub nodes: Vec<Node>,
}

/// One node: a network namespace with its own range of pod addresses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    pub netns: PathBuf,
    pub pod_cidr: Cidr,
}

#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is not a valid agent configuration")]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("{path}: {problem}")]
    Invalid { path: PathBuf, problem: &'static str },
}

impl Config {
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let path_buf = || path.to_path_buf();
        let text = std::fs::read(path).map_err(|source| ConfigError::Read { path: path_buf(), source })?;
        let config: Self =
            serde_json::from_slice(&text).map_err(|source| ConfigError::Parse { path: path_buf(), source })?;
        match config.problem() {
            Some(problem) => Err(ConfigError::Invalid { path: path_buf(), problem }),
            None => Ok(config),
        }
    }

    fn problem(&self) -> Option<&'static str> {
        if !self.volumes_dir.is_absolute() {
            return Some("volumes_dir must be an absolute path, because kubelets mount below it");
        }
        self.nodes.is_empty().then_some("nodes is empty; list at least one node")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let error = Config::read(file.path()).unwrap_err();
        format!("{:#}", anyhow::Error::from(error))
    }

    #[test]
    fn the_drivers_file_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = r#"{"volumes_dir":"/v","nodes":[{"name":"node-1","netns":"/run/netns/node-1","pod_cidr":"10.200.1.0/24"}]}"#;
        std::fs::write(file.path(), text).unwrap();
        let config = Config::read(file.path()).unwrap();
        assert_eq!(config.nodes[0].pod_cidr.to_string(), "10.200.1.0/24");
    }

    #[test]
    fn a_mistake_is_named_with_its_field() {
        assert!(problem_of(r#"{"volumes_dir":"v","nodes":[]}"#).contains("volumes_dir must be an absolute path"));
        assert!(problem_of(r#"{"volumes_dir":"/v","nodes":[]}"#).contains("nodes is empty"));
        assert!(problem_of(r#"{"volumes_dir":"/v","nodes":[],"node":1}"#).contains("unknown field `node`"));
        let wrong_range = r#"{"volumes_dir":"/v","nodes":[{"name":"n","netns":"/n","pod_cidr":"10.0.0.0"}]}"#;
        assert!(problem_of(wrong_range).contains("10.0.0.0 is not an IPv4 range"));
    }
}
