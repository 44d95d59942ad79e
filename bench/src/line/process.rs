//! What the kernel says of a process. IO: reads /proc, sets this process's limit of open files.

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{fs, time::Duration};

/// Clock ticks a second in /proc, the same on every Linux we build for.
const TICKS: u64 = 100;

pub fn allow_open_files(wanted: usize) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(wanted)?;
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        bail!("{wanted} open files are needed and {:?} are allowed: raise the hard limit (ulimit -Hn)", limit.maximum);
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("could not raise the limit of open files")
}

pub fn resident_kib(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}

/// Time on the processor, user and system together.
pub fn processor_time(process: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, after_name) = stat.rsplit_once(')').context("no name in /proc stat")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| -> Result<u64> { Ok(fields.get(index).context("short /proc stat")?.parse()?) };
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 1000 / TICKS))
}
