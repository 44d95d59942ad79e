//! The command line. Pure; `main` reads it.

use clap::{Args, Parser, Subcommand, ValueEnum};
use load::Options;
use std::{path::PathBuf, time::Duration};

/// Writes to a Valkey cluster, remembers what was acknowledged, and reads all of it back.
///
/// Exit code: 0 when every acknowledged write is there, 1 when one was lost or is wrong, 2 when it could not be found out.
#[derive(Debug, Parser)]
#[command(name = "valkey-load", version)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write for a while, then read everything back and report; SIGINT or SIGTERM ends the writing early.
    Run(RunArguments),
    /// Read back what a journal of an earlier run remembers.
    Check(CheckArguments),
    /// Set one key.
    Put {
        #[command(flatten)]
        target: Target,
        key: String,
        value: String,
    },
    /// Print the value of one key; exit code 1 when it does not exist.
    Get {
        #[command(flatten)]
        target: Target,
        key: String,
    },
}

#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Any nodes of the cluster, or a Service in front of them; the others are found from there.
    #[arg(long = "seed", required = true, value_delimiter = ',', value_name = "HOST:PORT", value_parser = seed)]
    pub seeds: Vec<String>,
    /// For one command, redirects included.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub timeout: Duration,
    /// How long to wait for a cluster in which every slot has an owner.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub covered_within: Duration,
}

#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub target: Target,
    /// How long to write; without it until SIGINT or SIGTERM.
    #[arg(long, value_parser = duration)]
    pub duration: Option<Duration>,
    /// Writers that wait for each answer, shared out over the shards, at least one each; 0 leaves the probes alone.
    #[arg(long, default_value_t = 8)]
    pub writers: usize,
    /// Writes per second of all writers together; 0 means as fast as they can.
    #[arg(long, default_value_t = 0)]
    pub rate: u32,
    /// Each shard gets one more write in this interval, whether earlier ones were answered or not; gaps are measured by them.
    #[arg(long, default_value = "10ms", value_parser = interval)]
    pub probe_every: Duration,
    /// Bytes per value, about.
    #[arg(long, default_value_t = 64)]
    pub value_size: usize,
    /// Count a write as acknowledged only when this many replicas have it as well (WAIT).
    #[arg(long, default_value_t = 0)]
    pub replicas: u32,
    /// A new file that gets every acknowledgement before it counts, for `check` after a crash of this program.
    #[arg(long)]
    pub journal: Option<PathBuf>,
    /// Also report every second.
    #[arg(long)]
    pub timeline: bool,
    #[command(flatten)]
    pub reading: Reading,
}

#[derive(Debug, Args)]
pub struct CheckArguments {
    #[command(flatten)]
    pub target: Target,
    /// What `run --journal` wrote.
    #[arg(long)]
    pub journal: PathBuf,
    #[command(flatten)]
    pub reading: Reading,
}

#[derive(Clone, Debug, Args)]
pub struct Reading {
    /// How long the reading back may wait for nodes that do not answer.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub verified_within: Duration,
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

impl RunArguments {
    pub fn options(&self) -> Options {
        Options {
            seeds: self.target.seeds.clone(),
            writers: self.writers,
            rate: self.rate,
            probe_every: self.probe_every,
            value_size: self.value_size,
            timeout: self.target.timeout,
            replicas: self.replicas,
            journal: self.journal.clone(),
            covered_within: self.target.covered_within,
            verified_within: self.reading.verified_within,
            timeline: self.timeline,
        }
    }
}

impl CheckArguments {
    pub fn options(&self) -> Options {
        Options {
            timeout: self.target.timeout,
            covered_within: self.target.covered_within,
            verified_within: self.reading.verified_within,
            ..Options::to(self.target.seeds.clone())
        }
    }
}

fn seed(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(port)) if port > 0 => Ok(text.to_owned()),
        _ => Err("give host:port, such as 10.0.0.7:6379 or poc.default.svc:6379".to_owned()),
    }
}

/// `500ms`, `30s`, `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let millis = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| "give a whole number with ms, s or m, such as 500ms or 30s".to_owned())
}

fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be 1ms or more".to_owned()),
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "5", "s", "1.5s", "-1s", "5h", "99999999999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_flag() {
        let cases = [
            (vec!["run"], "--seed"),
            (vec!["run", "--seed", "host"], "--seed"),
            (vec!["run", "--seed", "a:1,:2"], "--seed"),
            (vec!["run", "--seed", "a:1", "--duration", "5"], "--duration"),
            (vec!["run", "--seed", "a:1", "--probe-every", "0ms"], "--probe-every"),
            (vec!["check", "--seed", "a:1"], "--journal"),
        ];
        for (words, flag) in cases {
            let error = Arguments::try_parse_from(std::iter::once("valkey-load").chain(words)).unwrap_err();
            assert!(error.to_string().contains(flag), "{error}");
        }
    }

    #[test]
    fn several_seeds_come_with_commas_or_repeated() {
        let words = ["valkey-load", "get", "--seed", "a:1,b:2", "--seed", "c:3", "key"];
        let Command::Get { target, .. } = Arguments::try_parse_from(words).unwrap().command else { panic!("not get") };
        assert_eq!(target.seeds, ["a:1", "b:2", "c:3"]);
    }
}
