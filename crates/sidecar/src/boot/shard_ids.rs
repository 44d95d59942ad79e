//! A nodes.conf that Valkey 8.x itself wrote and then refuses: for a moment after a cluster has formed, a replica's line may
//! still name the shard its primary was in before. A replica is in its primary's shard, so the line is made to say so.
//! Newer versions sort it out themselves and are not meddled with. Pure but for `mend`.

use crate::durable_file::{self, WriteFile};
use std::{collections::HashMap, fs, path::Path};

const FILE: &str = "nodes.conf";
const MARK: &str = "shard-id=";

/// True when something was mended.
pub fn mend(data_dir: &Path) -> Result<bool, WriteFile> {
    let file = data_dir.join(FILE);
    let mended = fs::read_to_string(&file).ok().and_then(|text| agreed(&text));
    mended.map_or(Ok(false), |text| durable_file::write_if_changed(&file, &text))
}

/// The text with every replica in its primary's shard; None when that is so already.
fn agreed(text: &str) -> Option<String> {
    let shards: HashMap<&str, &str> = text.lines().filter_map(|line| Some((id(line)?, shard(line)?))).collect();
    let wrong = |line: &str| {
        let (own, primary) = (shard(line)?, shards.get(line.split(' ').nth(3)?)?);
        (own != *primary).then(|| line.replacen(&format!("{MARK}{own}"), &format!("{MARK}{primary}"), 1))
    };
    text.lines().any(|line| wrong(line).is_some()).then(|| {
        let lines = text.lines().map(|line| wrong(line).unwrap_or_else(|| line.to_owned()) + "\n");
        lines.collect()
    })
}

fn id(line: &str) -> Option<&str> {
    line.split(' ').next()
}

/// The address is followed by name=value pairs behind commas.
fn shard(line: &str) -> Option<&str> {
    line.split(' ').nth(1)?.split(',').find_map(|part| part.strip_prefix(MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
r1 10.0.0.2:6379@16379,,tls-port=0,shard-id=old slave p1 0 1 7 connected
p1 10.0.0.1:6379@16379,,tls-port=0,shard-id=new master - 0 1 7 connected 0-5460
me 10.0.0.3:6379@16379,,tls-port=0,shard-id=mine myself,slave p2 0 1 7 connected
vars currentEpoch 7 lastVoteEpoch 0
";

    #[test]
    fn a_replica_is_in_the_shard_of_its_primary() {
        assert_eq!(agreed(NODES), Some(NODES.replace("shard-id=old", "shard-id=new")));
        assert_eq!(agreed(&NODES.replace("shard-id=old", "shard-id=new")), None);
    }

    #[test]
    fn what_has_no_shards_is_left_alone() {
        assert_eq!(agreed(""), None);
        assert_eq!(
            agreed("me 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-5460\nvars currentEpoch 7\n"),
            None
        );
    }
}
