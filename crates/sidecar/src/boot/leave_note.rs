//! A node that leaves its cluster is reset first and its empty state saved after that. This note says, if it ends in between, that what is on
//! the volume is of the node that it was: loaded, it would claim its slots again. IO.

use super::nodes_conf;
use crate::durable_file;
use sidecar_rules::boot::Past;
use std::{fs, io, path::Path};

pub const FILE: &str = "sidecar-leave.json";

pub struct LeaveNote;

impl LeaveNote {
    /// `node`: the id of the node that leaves.
    pub fn write(data_dir: &Path, node: &str) -> io::Result<()> {
        let text = serde_json::to_string(node)?;
        durable_file::write(&data_dir.join(FILE), &text).map_err(io::Error::other)
    }

    pub fn is_there(data_dir: &Path) -> bool {
        data_dir.join(FILE).exists()
    }

    pub fn remove(data_dir: &Path) -> io::Result<()> {
        fs::remove_file(data_dir.join(FILE))?;
        fs::File::open(data_dir)?.sync_all()
    }

    /// It was reset and has had nothing since. A node that serves slots or knows others has data of its own, whatever the note says.
    pub fn is_about_leftovers(data_dir: &Path) -> bool {
        let text = fs::read_to_string(data_dir.join(FILE)).unwrap_or_default();
        let Ok(left) = serde_json::from_str::<String>(&text) else { return false };
        match nodes_conf::read(data_dir) {
            // It was being set aside.
            Past::Unknown => true,
            Past::Damaged(_) => false,
            Past::Node(node) => node.id.as_str() != left && node.slots.is_empty() && node.peers.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_node_had_before_it_was_reset_is_a_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let is_leftover = |nodes: &str| {
            fs::write(folder.path().join("nodes.conf"), nodes).unwrap();
            LeaveNote::is_about_leftovers(folder.path())
        };
        let alone = "new :0@0 myself,master - 0 0 0 connected\n";
        assert!(!is_leftover(alone), "nobody left");
        LeaveNote::write(folder.path(), "old").unwrap();
        assert!(is_leftover(alone));
        for own in [
            alone.replace("new", "old"),
            alone.replace("connected", "connected 1-5"),
            format!("{alone}o 10.0.0.3:6379@16379 master - 0 1 3 connected 0-16383\n"),
        ] {
            assert!(!is_leftover(&own), "{own}");
        }
        fs::remove_file(folder.path().join("nodes.conf")).unwrap();
        assert!(LeaveNote::is_about_leftovers(folder.path()));
        LeaveNote::remove(folder.path()).unwrap();
        assert!(!LeaveNote::is_there(folder.path()));
    }
}
