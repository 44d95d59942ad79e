//! The commands that move slots and their keys, typed. IO through `Connection`; the sidecar calls them.

use crate::{
    connection::{CallError, Connection},
    reply::Reply,
};
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use topology::{NodeId, SlotRange, SlotSet};

/// What CLUSTER SETSLOT makes of a slot.
#[derive(Clone, Copy, Debug)]
pub enum SlotOwner<'a> {
    Importing(&'a NodeId),
    Migrating(&'a NodeId),
    Node(&'a NodeId),
    /// Neither on its way here nor from here.
    Stable,
}

/// What became of one MIGRATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Migration {
    Done,
    /// None of these keys is here any more.
    NoKey,
    /// A key is at the other end already; those before it are moved.
    BusyKey,
    /// The other end was not reached, or fell silent: it may have got some of the keys, and this end has still all of those.
    Interrupted(String),
}

/// A migration away from this node that Valkey carries out by itself, as CLUSTER GETSLOTMIGRATIONS tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMigration {
    pub name: String,
    pub slots: SlotSet,
    pub target: NodeId,
    pub state: String,
    pub message: String,
}

impl SlotMigration {
    pub fn is_over(&self) -> bool {
        ["success", "failed", "cancelled"].contains(&self.state.as_str())
    }

    pub fn succeeded(&self) -> bool {
        self.state == "success"
    }

    /// What comes to this node is left out: of what it followed as a replica, Valkey does not say from where to where it went.
    fn parse(reply: Reply) -> Option<Option<Self>> {
        let fields = BTreeMap::from_iter(reply.into_pairs()?);
        let text = |name: &str| fields.get(name).cloned();
        if text("operation")? != "EXPORT" {
            return Some(None);
        }
        Some(Some(Self {
            name: text("name")?,
            slots: text("slot_ranges")?.replace(' ', ",").parse().ok()?,
            target: NodeId::new(text("target_node")?),
            state: text("state")?,
            message: text("message").unwrap_or_default(),
        }))
    }
}

impl Connection {
    /// How many keys each of the slots holds here.
    pub async fn cluster_count_keys(&mut self, slots: &[u16]) -> Result<Vec<u64>, CallError> {
        let words = |slot: &u16| ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()].map(str::to_owned).to_vec();
        let replies = self.pipeline(&slots.iter().map(words).collect::<Vec<_>>()).await?;
        let counts = replies.iter().map(Reply::number).collect::<Option<Vec<u64>>>();
        counts.ok_or(CallError::Unexpected { command: "CLUSTER COUNTKEYSINSLOT" })
    }

    pub async fn cluster_keys_in_slot(&mut self, slot: u16, most: usize) -> Result<Vec<Vec<u8>>, CallError> {
        let reply = self.call(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &most.to_string()]).await?;
        let keys = reply.into_items().and_then(|items| items.into_iter().map(Reply::into_bytes).collect());
        keys.ok_or(CallError::Unexpected { command: "CLUSTER GETKEYSINSLOT" })
    }

    /// About how many bytes each key takes; 0 for one that is gone.
    pub async fn memory_usage(&mut self, keys: &[Vec<u8>]) -> Result<Vec<u64>, CallError> {
        let words = |key: &Vec<u8>| vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), key.clone()];
        let replies = self.pipeline(&keys.iter().map(words).collect::<Vec<_>>()).await?;
        Ok(replies.iter().map(|reply| reply.number().unwrap_or_default()).collect())
    }

    pub async fn cluster_set_slot(&mut self, slot: u16, owner: SlotOwner<'_>) -> Result<(), CallError> {
        let slot = slot.to_string();
        let words = match owner {
            SlotOwner::Importing(node) => vec![slot.as_str(), "IMPORTING", node.as_str()],
            SlotOwner::Migrating(node) => vec![slot.as_str(), "MIGRATING", node.as_str()],
            SlotOwner::Node(node) => vec![slot.as_str(), "NODE", node.as_str()],
            SlotOwner::Stable => vec![slot.as_str(), "STABLE"],
        };
        self.acknowledged("CLUSTER SETSLOT", &words).await
    }

    /// Both servers do nothing else meanwhile. `replace`: also over keys that the other end has.
    pub async fn migrate(
        &mut self,
        to: SocketAddr,
        keys: &[Vec<u8>],
        silence: Duration,
        replace: bool,
    ) -> Result<Migration, CallError> {
        let (ip, port, silence) = (to.ip().to_string(), to.port().to_string(), silence.as_millis().to_string());
        let mut words: Vec<&[u8]> = ["MIGRATE", &ip, &port, "", "0", &silence].into_iter().map(str::as_bytes).collect();
        if replace {
            words.push(b"REPLACE");
        }
        words.push(b"KEYS");
        words.extend(keys.iter().map(Vec::as_slice));
        match self.call(&words).await {
            Ok(Reply::Simple(text)) if text == "OK" => Ok(Migration::Done),
            Ok(Reply::Simple(text)) if text == "NOKEY" => Ok(Migration::NoKey),
            Ok(_) => Err(CallError::Unexpected { command: "MIGRATE" }),
            Err(CallError::Refused(refusal)) if refusal.message.contains("BUSYKEY") => Ok(Migration::BusyKey),
            Err(CallError::Refused(refusal)) if refusal.message.starts_with("IOERR") => {
                Ok(Migration::Interrupted(refusal.message))
            }
            Err(error) => Err(error),
        }
    }

    /// Begins a migration that Valkey carries out by itself. OK means accepted, not done.
    pub async fn cluster_migrate_slots(&mut self, slots: &SlotSet, to: &NodeId) -> Result<(), CallError> {
        let range = |range: &SlotRange| [range.first.to_string(), range.last.to_string()];
        let words: Vec<String> = slots.ranges().iter().flat_map(range).collect();
        let words = std::iter::once("SLOTSRANGE").chain(words.iter().map(String::as_str));
        self.acknowledged("CLUSTER MIGRATESLOTS", &words.chain(["NODE", to.as_str()]).collect::<Vec<_>>()).await
    }

    /// The newest first, those that ended among them.
    pub async fn cluster_slot_migrations(&mut self) -> Result<Vec<SlotMigration>, CallError> {
        let jobs = self.call(&["CLUSTER", "GETSLOTMIGRATIONS"]).await?.into_items();
        let jobs = jobs.and_then(|jobs| jobs.into_iter().map(SlotMigration::parse).collect::<Option<Vec<_>>>());
        jobs.map(|jobs| jobs.into_iter().flatten().collect())
            .ok_or(CallError::Unexpected { command: "CLUSTER GETSLOTMIGRATIONS" })
    }

    /// Ends all migrations away from this node.
    pub async fn cluster_cancel_slot_migrations(&mut self) -> Result<(), CallError> {
        self.acknowledged("CLUSTER CANCELSLOTMIGRATIONS", &[]).await
    }

    /// The source of each library of functions, by its name.
    pub async fn function_libraries(&mut self) -> Result<BTreeMap<String, String>, CallError> {
        let libraries = self.call(&["FUNCTION", "LIST", "WITHCODE"]).await?.into_items();
        let library = |reply: Reply| {
            let mut fields = BTreeMap::from_iter(reply.into_pairs()?);
            Some((fields.remove("library_name")?, fields.remove("library_code")?))
        };
        let libraries = libraries.and_then(|libraries| libraries.into_iter().map(library).collect());
        libraries.ok_or(CallError::Unexpected { command: "FUNCTION LIST" })
    }

    pub async fn function_load(&mut self, code: &str) -> Result<(), CallError> {
        self.call(&["FUNCTION", "LOAD", code]).await.map(drop)
    }

    /// The value as Valkey carries it from server to server; `None` when there is no such key. `asking`: also of a slot that is on its
    /// way here.
    pub async fn dump(&mut self, key: &[u8], asking: bool) -> Result<Option<Vec<u8>>, CallError> {
        let dump = vec![b"DUMP".to_vec(), key.to_vec()];
        let commands = if asking { vec![vec![b"ASKING".to_vec()], dump] } else { vec![dump] };
        match self.pipeline(&commands).await?.pop() {
            Some(Reply::Bulk(bytes)) => Ok(Some(bytes)),
            Some(Reply::Null) => Ok(None),
            Some(Reply::Error(refusal)) => Err(CallError::Refused(refusal)),
            _ => Err(CallError::Unexpected { command: "DUMP" }),
        }
    }

    /// Which of the keys, of a slot that is on its way here, are here.
    pub async fn exist(&mut self, keys: &[Vec<u8>]) -> Result<Vec<bool>, CallError> {
        let words = |key: &Vec<u8>| [vec![b"ASKING".to_vec()], vec![b"EXISTS".to_vec(), key.clone()]];
        let replies = self.pipeline(&keys.iter().flat_map(words).collect::<Vec<_>>()).await?;
        let answers: Option<Vec<u64>> = replies.iter().skip(1).step_by(2).map(Reply::number).collect();
        let answers = answers.ok_or(CallError::Unexpected { command: "EXISTS" })?;
        Ok(answers.into_iter().map(|count| count > 0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    fn told(state: &str) -> Reply {
        let pairs = [
            ("name", "a1"),
            ("operation", "EXPORT"),
            ("slot_ranges", "0-4 9-9"),
            ("target_node", "t"),
            ("state", state),
            ("message", "why"),
        ];
        Reply::Array(pairs.into_iter().flat_map(|(name, value)| [bulk(name), bulk(value)]).collect())
    }

    #[test]
    fn a_migration_is_read_with_all_its_ranges() {
        let read = |state| SlotMigration::parse(told(state)).flatten().unwrap();
        let job = read("snapshotting");
        assert_eq!((job.slots.to_string(), job.target.as_str(), job.message.as_str()), ("0-4,9".into(), "t", "why"));
        assert!(!job.is_over());
        let over = ["success", "failed", "cancelled"].map(read);
        assert_eq!(
            over.each_ref().map(|job| (job.is_over(), job.succeeded())),
            [(true, true), (true, false), (true, false)]
        );
        assert_eq!(SlotMigration::parse(Reply::Null), None);
    }

    /// A node that was a replica while its primary took slots lists that for ever, without the ends.
    #[test]
    fn what_a_replica_saw_coming_does_not_hide_the_rest() {
        let pairs = [("name", "a1"), ("operation", "IMPORT"), ("slot_ranges", "0-4"), ("state", "success")];
        let seen = pairs.into_iter().flat_map(|(name, value)| [bulk(name), bulk(value)]).collect();
        assert_eq!(SlotMigration::parse(Reply::Array(seen)), Some(None));
    }
}
