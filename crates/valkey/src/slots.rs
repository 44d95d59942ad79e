//! The commands that move slots and their keys, typed. IO through `Connection`; the sidecar calls them.

use crate::{
    connection::{CallError, Connection},
    refusal::Refusal,
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
    /// The other end was not reached, or fell silent. This end has no longer those that were acknowledged; of those that it still has,
    /// the other end may have got some.
    Interrupted(String),
    Refused(Refusal),
}

/// What became of several tries in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tries {
    pub end: Migration,
    /// The other end fell silent in one of them: what was sent may still be on its way there.
    pub given_up: bool,
    /// Keys that were still here right after the last.
    pub still_here: Vec<Vec<u8>>,
}

/// A migration that Valkey carries out by itself, as CLUSTER GETSLOTMIGRATIONS tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMigration {
    pub name: String,
    /// Away from this node. Of one that comes, and that it followed as a replica, Valkey does not say from where to where it went.
    pub export: bool,
    pub slots: SlotSet,
    /// Empty when it is not told.
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

    fn parse(reply: Reply) -> Option<Self> {
        let fields = BTreeMap::from_iter(reply.into_pairs()?);
        let text = |name: &str| fields.get(name).cloned();
        let export = text("operation")? == "EXPORT";
        let target = text("target_node");
        Some(Self {
            name: text("name")?,
            export,
            slots: text("slot_ranges")?.replace(' ', ",").parse().ok()?,
            target: NodeId::new(if export { target? } else { target.unwrap_or_default() }),
            state: text("state")?,
            message: text("message").unwrap_or_default(),
        })
    }
}

impl Migration {
    fn of(reply: Reply) -> Result<Self, CallError> {
        match reply {
            Reply::Simple(text) if text == "OK" => Ok(Migration::Done),
            Reply::Simple(text) if text == "NOKEY" => Ok(Migration::NoKey),
            Reply::Error(refusal) if refusal.message.contains("BUSYKEY") => Ok(Migration::BusyKey),
            Reply::Error(refusal) if refusal.message.starts_with("IOERR") => {
                Ok(Migration::Interrupted(refusal.message))
            }
            Reply::Error(refusal) => Ok(Migration::Refused(refusal)),
            _ => Err(CallError::Unexpected { command: "MIGRATE" }),
        }
    }
}

impl Tries {
    pub fn once(keys: &[Vec<u8>], end: Migration) -> Self {
        let given_up = matches!(end, Migration::Interrupted(_));
        Self { end, given_up, still_here: if given_up { keys.to_vec() } else { Vec::new() } }
    }

    /// `answers`: to both tries, and whether each key is here then.
    fn of(keys: &[Vec<u8>], answers: Vec<Reply>) -> Result<Self, CallError> {
        let mut answers = answers.into_iter();
        let (Some(first), Some(second)) = (answers.next(), answers.next()) else {
            return Err(CallError::Unexpected { command: "EXEC" });
        };
        let (first, second) = (Migration::of(first)?, Migration::of(second)?);
        let given_up = [&first, &second].iter().any(|answer| matches!(answer, Migration::Interrupted(_)));
        let end = if first == Migration::Done { first } else { second };
        let here = keys.iter().zip(answers).filter(|(_, here)| here.number() != Some(0));
        Ok(Self { end, given_up, still_here: here.map(|(key, _)| key.clone()).collect() })
    }

    /// None was sent.
    fn not_begun(refusal: Refusal) -> Self {
        let end = if has_gone(&refusal) { Migration::NoKey } else { Migration::Refused(refusal) };
        Self { end, given_up: false, still_here: Vec::new() }
    }
}

/// The key, or some of several, and its slot is on its way.
fn has_gone(refusal: &Refusal) -> bool {
    ["TRYAGAIN", "ASK "].iter().any(|no| refusal.message.starts_with(no))
}

fn migrate(to: SocketAddr, keys: &[Vec<u8>], silence: Duration, replace: bool) -> Vec<Vec<u8>> {
    let (ip, port, silence) = (to.ip().to_string(), to.port().to_string(), silence.as_millis().to_string());
    let mut words: Vec<Vec<u8>> =
        ["MIGRATE", &ip, &port, "", "0", &silence].map(|word| word.as_bytes().to_vec()).into();
    words.extend(replace.then(|| b"REPLACE".to_vec()));
    words.push(b"KEYS".to_vec());
    words.extend_from_slice(keys);
    words
}

/// Of a line of CLIENT LIST.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::trim_end)
}

fn set_slot<'a>(slot: &'a str, owner: SlotOwner<'a>) -> Vec<&'a str> {
    match owner {
        SlotOwner::Importing(node) => vec![slot, "IMPORTING", node.as_str()],
        SlotOwner::Migrating(node) => vec![slot, "MIGRATING", node.as_str()],
        SlotOwner::Node(node) => vec![slot, "NODE", node.as_str()],
        SlotOwner::Stable => vec![slot, "STABLE"],
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

    /// Some keys of each of the slots.
    pub async fn cluster_keys_in_slots(&mut self, slots: &[u16], most: usize) -> Result<Vec<Vec<Vec<u8>>>, CallError> {
        let words =
            |slot: &u16| ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &most.to_string()].map(str::to_owned).to_vec();
        let replies = self.pipeline(&slots.iter().map(words).collect::<Vec<_>>()).await?;
        let keys = |reply: Reply| reply.into_items()?.into_iter().map(Reply::into_bytes).collect();
        let keys = replies.into_iter().map(keys).collect::<Option<_>>();
        keys.ok_or(CallError::Unexpected { command: "CLUSTER GETKEYSINSLOT" })
    }

    /// About how many bytes each key takes; 0 for one that is gone, or whose time is over.
    pub async fn memory_usage(&mut self, keys: &[Vec<u8>]) -> Result<Vec<u64>, CallError> {
        let words = |key: &Vec<u8>| vec![b"MEMORY".to_vec(), b"USAGE".to_vec(), key.clone()];
        let replies = self.pipeline(&keys.iter().map(words).collect::<Vec<_>>()).await?;
        let size = |reply: Reply| match reply {
            Reply::Null => Ok(0),
            Reply::Error(refusal) if has_gone(&refusal) => Ok(0),
            Reply::Error(refusal) => Err(CallError::Refused(refusal)),
            reply => reply.number().ok_or(CallError::Unexpected { command: "MEMORY USAGE" }),
        };
        replies.into_iter().map(size).collect()
    }

    pub async fn cluster_set_slot(&mut self, slot: u16, owner: SlotOwner<'_>) -> Result<(), CallError> {
        self.acknowledged("CLUSTER SETSLOT", &set_slot(&slot.to_string(), owner)).await
    }

    /// One after the other, sent at once; an answer for each.
    pub async fn cluster_set_slots(
        &mut self,
        slots: &[u16],
        owner: SlotOwner<'_>,
    ) -> Result<Vec<Result<(), Refusal>>, CallError> {
        let words = |slot: &u16| {
            let slot = slot.to_string();
            let words = ["CLUSTER", "SETSLOT"].into_iter().chain(set_slot(&slot, owner));
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let answer = |reply: Reply| match reply {
            Reply::Simple(text) if text == "OK" => Ok(Ok(())),
            Reply::Error(refusal) => Ok(Err(refusal)),
            _ => Err(CallError::Unexpected { command: "CLUSTER SETSLOT" }),
        };
        self.pipeline(&slots.iter().map(words).collect::<Vec<_>>()).await?.into_iter().map(answer).collect()
    }

    /// Both servers do nothing else meanwhile. `replace`: also over keys that the other end has.
    pub async fn migrate(
        &mut self,
        to: SocketAddr,
        keys: &[Vec<u8>],
        silence: Duration,
        replace: bool,
    ) -> Result<Migration, CallError> {
        let reply = match self.call(&migrate(to, keys, silence, replace)).await {
            Err(CallError::Refused(refusal)) => Reply::Error(refusal),
            answered => answered?,
        };
        Migration::of(reply)
    }

    /// Twice in a row, the second time over what the other end got the first time. Clients get no turn in between: what they changed
    /// there would be overtaken by what the other end has still to take in. Nor before it is asked which keys are still here: one that
    /// is not was acknowledged, and not deleted by a client.
    pub async fn migrate_twice(
        &mut self,
        to: SocketAddr,
        keys: &[Vec<u8>],
        silence: Duration,
        replace: bool,
    ) -> Result<Tries, CallError> {
        let [multi, exec] = ["MULTI", "EXEC"].map(|word| vec![word.as_bytes().to_vec()]);
        let mut commands = vec![multi, migrate(to, keys, silence, replace), migrate(to, keys, silence, true)];
        commands.extend(keys.iter().map(|key| vec![b"EXISTS".to_vec(), key.clone()]));
        commands.push(exec);
        let mut replies = self.pipeline(&commands).await?;
        if let Some(Reply::Array(answers)) = replies.pop_if(|last| matches!(last, Reply::Array(_))) {
            return Tries::of(keys, answers);
        }
        // What was refused first says why.
        let refused = replies.into_iter().find_map(|reply| match reply {
            Reply::Error(refusal) => Some(refusal),
            _ => None,
        });
        refused.map(Tries::not_begun).ok_or(CallError::Unexpected { command: "EXEC" })
    }

    /// Closes the connections over which a server at this client's address sends keys here. What it gave up to wait for may still be on
    /// its way over them, for as long as the network repeats it, and would be written over newer values. Such a connection begins with
    /// SELECT, which is its last command while the first key is still coming. Another client at that address whose last command is
    /// SELECT is closed with them: it connects again, as after any cut.
    pub async fn end_migrations_from_here(&mut self) -> Result<(), CallError> {
        let own = self.call(&["CLIENT", "INFO"]).await?.into_text();
        let all = self.call(&["CLIENT", "LIST", "TYPE", "normal"]).await?.into_text();
        let host = |line: &str| field(line, "addr").and_then(|addr| Some(addr.rsplit_once(':')?.0.to_owned()));
        let sends = |line: &&str| {
            ["restore-asking", "select", "NULL"].iter().any(|command| field(line, "cmd") == Some(command))
                && host(line) == host(&own)
        };
        for id in all.lines().filter(sends).filter_map(|line| field(line, "id")) {
            // It may have gone by itself.
            self.call(&["CLIENT", "KILL", "ID", id]).await?;
        }
        Ok(())
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
        let jobs = jobs.and_then(|jobs| jobs.into_iter().map(SlotMigration::parse).collect());
        jobs.ok_or(CallError::Unexpected { command: "CLUSTER GETSLOTMIGRATIONS" })
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
        let read = |state| SlotMigration::parse(told(state)).unwrap();
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
        let read = SlotMigration::parse(Reply::Array(seen)).unwrap();
        assert!(!read.export && read.target.as_str().is_empty(), "{read:?}");
    }
}
