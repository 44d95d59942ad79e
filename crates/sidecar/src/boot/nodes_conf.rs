//! The nodes.conf beside the data: what this node was when it last ran, and giving up the epoch it has there. IO.

use crate::durable_file::{self, WriteFile};
use sidecar_rules::boot::Past;
use std::{fs, io, path::Path};
use topology::ClusterNodes;

const FILE: &str = "nodes.conf";

pub fn read(data_dir: &Path) -> Past {
    match fs::read_to_string(data_dir.join(FILE)) {
        Ok(text) => Past::parse(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Past::Unknown,
        Err(error) => Past::Damaged(error.to_string()),
    }
}

/// All nodes that it lists; None when it is not there or cannot be read.
pub fn known_nodes(data_dir: &Path) -> Option<ClusterNodes> {
    ClusterNodes::parse(&fs::read_to_string(data_dir.join(FILE)).ok()?)
}

/// Sets the epoch of this node's own line back to nothing: the node that serves its slots then wins over it.
pub fn concede(data_dir: &Path) -> Result<(), ConcedeError> {
    let file = data_dir.join(FILE);
    let text = fs::read_to_string(&file).map_err(ConcedeError::Read)?;
    let lines = text.lines().map(|line| if is_own(line) { conceded(line) } else { line.to_owned() } + "\n");
    durable_file::write_if_changed(&file, &lines.collect::<String>()).map(drop).map_err(ConcedeError::Write)
}

#[derive(Debug, thiserror::Error)]
pub enum ConcedeError {
    #[error("could not read nodes.conf")]
    Read(#[source] io::Error),
    #[error("could not change nodes.conf")]
    Write(#[source] WriteFile),
}

fn is_own(line: &str) -> bool {
    line.split(' ').nth(2).is_some_and(|flags| flags.split(',').any(|flag| flag == "myself"))
}

/// id, address, flags, primary, ping, pong, epoch, link, slots…
fn conceded(line: &str) -> String {
    let words = line.split(' ').enumerate().map(|(index, word)| if index == 6 { "0" } else { word });
    words.collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "\
me 10.0.0.1:6379@16379,p-0.h,shard-id=a,nodename=p-0 myself,master - 0 0 7 connected 0-5460
r1 10.0.0.2:6379@16379,p-1.h,shard-id=a slave me 0 1 7 connected
vars currentEpoch 7 lastVoteEpoch 0
";

    #[test]
    fn conceding_changes_the_own_epoch_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), PRIMARY).unwrap();
        concede(folder.path()).unwrap();
        let expected = PRIMARY.replace("myself,master - 0 0 7", "myself,master - 0 0 0");
        assert_ne!(expected, PRIMARY);
        assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), expected);
    }

    #[test]
    fn a_file_that_is_not_there_says_nothing_and_one_that_cannot_be_read_is_damaged() {
        assert_eq!(read(Path::new("/nowhere")), Past::Unknown);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(FILE)).unwrap();
        assert!(matches!(read(folder.path()), Past::Damaged(_)));
    }
}
