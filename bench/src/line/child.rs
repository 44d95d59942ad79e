//! A child process of the measurement: started with its orders on standard input, asked for its counts line by line. IO.

use crate::{certificates::Files, process};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};
use tokio::sync::mpsc;

/// What a child is to do.
#[derive(Serialize, Deserialize)]
pub struct Orders {
    pub files: Files,
    /// Where to listen, or whom to dial.
    pub address: String,
    /// What one address may take is as it ships; otherwise all sidecars may come from one.
    pub per_address: bool,
}

/// What the operator's process counted since it was last asked.
#[derive(Default, Serialize, Deserialize)]
pub struct Counts {
    pub open: usize,
    pub round_trips: Vec<u32>,
    pub served: Vec<u32>,
    pub refusals: BTreeMap<String, usize>,
}

pub struct Part {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Part {
    pub fn start(part: &str, orders: &Orders) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start {part}"))?;
        let orders_pipe = child.stdin.take().context("no standard input")?;
        let answers = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut part = Self { child, orders: orders_pipe, answers };
        part.say(&serde_json::to_string(orders)?)?;
        Ok(part)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn say(&mut self, line: &str) -> Result<()> {
        writeln!(self.orders, "{line}")?;
        Ok(self.orders.flush()?)
    }

    /// The next line the child prints.
    pub fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line)?;
        anyhow::ensure!(read > 0, "the child process {} ended without an answer", self.id());
        Ok(line.trim().to_owned())
    }

    pub fn ask<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.say("count")?;
        Ok(serde_json::from_str(&self.hear()?)?)
    }

    pub fn resident_kib(&self) -> Result<u64> {
        process::resident_kib(self.id())
    }

    pub fn processor_time(&self) -> Result<Duration> {
        process::processor_time(self.id())
    }

    /// As hard as a crash.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Nothing is left running when the measurement fails half-way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The child's side: its orders, and then one item for each question.
pub fn orders() -> Result<(Orders, mpsc::Receiver<()>)> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let orders = serde_json::from_str(&line)?;
    let (asked, questions) = mpsc::channel(1);
    std::thread::spawn(move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            if asked.blocking_send(()).is_err() {
                break;
            }
        }
    });
    Ok((orders, questions))
}
