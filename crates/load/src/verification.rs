//! Reads back everything that was acknowledged. IO. A node that does not answer is asked again until the deadline; what is missing
//! is looked for a second time by a fresh map before it counts as lost. Whoever calls it runs `refresh::keep_current` beside it.

use crate::{
    client::Client,
    failure::{self, Failure},
    journal::Memory,
    report::{Problem, Sample},
    written::Written,
};
use futures::{StreamExt, stream};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use valkey::Reply;

/// Keys of one slot read with one command, and commands under way at once.
const TOGETHER: usize = 64;
const PARALLEL: usize = 16;
const SAMPLES: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub lost: u64,
    pub wrong: u64,
    pub unverified: u64,
    /// The earliest of them.
    pub samples: Vec<Sample>,
    pub damaged_between_ms: Option<[u32; 2]>,
    pub unverified_because: Option<String>,
}

/// What one reading of many writes brought.
#[derive(Default)]
struct Pass {
    otherwise: Vec<(Written, Problem)>,
    unread: u64,
    because: Option<String>,
}

/// Looks for every write of the run.
pub async fn verify(client: &Client, memory: &Memory, within: Duration) -> Findings {
    let until = Instant::now() + within;
    let first = pass(client, memory, memory.written.clone(), until).await;
    let mut findings = Findings { unverified: first.unread, unverified_because: first.because, ..Findings::default() };
    if first.otherwise.is_empty() {
        return findings;
    }
    let _the_old_map_may_do = client.refresh().await;
    let suspects = first.otherwise.into_iter().map(|(written, _)| written).collect();
    let mut second = pass(client, memory, suspects, until).await;
    second.otherwise.sort_by_key(|(written, _)| written.at_ms);
    findings.unverified += second.unread;
    findings.unverified_because = findings.unverified_because.or(second.because);
    second.otherwise.into_iter().for_each(|(written, problem)| findings.blame(memory, &written, problem));
    findings
}

async fn pass(client: &Client, memory: &Memory, mut written: Vec<Written>, until: Instant) -> Pass {
    written.sort_unstable_by_key(|written| (written.slot, written.sequence));
    let batches = written.chunk_by(|one, other| one.slot == other.slot).flat_map(|slot| slot.chunks(TOGETHER));
    let reading = |batch| async move { (batch, read(client, memory, batch, until).await) };
    let mut reading = stream::iter(batches.map(reading)).buffer_unordered(PARALLEL);
    let mut pass = Pass::default();
    while let Some((batch, result)) = reading.next().await {
        pass.add(batch, result);
    }
    pass
}

impl Pass {
    fn add(&mut self, batch: &[Written], result: Result<Vec<Option<Problem>>, Failure>) {
        match result {
            Ok(problems) => {
                let wrong = batch.iter().zip(problems).filter_map(|(written, problem)| Some((*written, problem?)));
                self.otherwise.extend(wrong);
            }
            Err(failure) => {
                self.unread += batch.len() as u64;
                self.because.get_or_insert_with(|| failure::with_sources(&failure));
            }
        }
    }
}

/// What is wrong with each of the writes, which are all of one slot.
async fn read(
    client: &Client,
    memory: &Memory,
    batch: &[Written],
    until: Instant,
) -> Result<Vec<Option<Problem>>, Failure> {
    let keys: Vec<String> = batch.iter().map(|written| memory.run.key(written.sequence, written.slot)).collect();
    let slot = batch.first().map_or(0, |written| written.slot);
    let values = match persist(client, slot, "MGET", &keys, until).await {
        // Keys of a slot that is on the move may be on two nodes: then each is asked for alone.
        Err(failure) if failure.is_try_again() => one_by_one(client, slot, &keys, until).await?,
        other => match other? {
            Reply::Array(values) => values,
            other => vec![other],
        },
    };
    let compare = |(written, value): (&Written, Reply)| match value {
        Reply::Null => Some(Problem::Lost),
        Reply::Bulk(bytes) if bytes == memory.run.value(written.sequence).into_bytes() => None,
        _ => Some(Problem::Wrong),
    };
    Ok(batch.iter().zip(values).map(compare).collect())
}

async fn one_by_one(client: &Client, slot: u16, keys: &[String], until: Instant) -> Result<Vec<Reply>, Failure> {
    let mut values = Vec::new();
    for key in keys {
        values.push(persist(client, slot, "GET", std::slice::from_ref(key), until).await?);
    }
    Ok(values)
}

async fn persist(client: &Client, slot: u16, name: &str, keys: &[String], until: Instant) -> Result<Reply, Failure> {
    let command: Vec<&str> = std::iter::once(name).chain(keys.iter().map(String::as_str)).collect();
    loop {
        match client.send(slot, &command).await {
            Ok(answer) => return Ok(answer.reply),
            Err(failure) if Instant::now() >= until || failure.is_try_again() && name == "MGET" => return Err(failure),
            // The map is kept current meanwhile.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

impl Findings {
    /// To be called in the order of time.
    fn blame(&mut self, memory: &Memory, written: &Written, problem: Problem) {
        match problem {
            Problem::Lost => self.lost += 1,
            Problem::Wrong => self.wrong += 1,
        }
        let [first, _] = self.damaged_between_ms.unwrap_or([written.at_ms; 2]);
        self.damaged_between_ms = Some([first, written.at_ms]);
        if self.samples.len() >= SAMPLES {
            return;
        }
        let node = memory.nodes.get(usize::from(written.node));
        self.samples.push(Sample {
            key: memory.run.key(written.sequence, written.slot),
            problem,
            slot: written.slot,
            acknowledged_by: node.map(ToString::to_string).unwrap_or_default(),
            acknowledged_at_ms: written.at_ms,
        });
    }
}
