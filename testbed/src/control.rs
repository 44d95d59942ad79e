//! Talking to a running testbed: one JSON line there, one back, over a Unix socket in its folder.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::layout::Dir;
use crate::supervisor::PartStatus;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Status,
    StopNode(String),
    StartNode(String),
    CutNode(String),
    HealNode(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    #[default]
    Running,
    Stopped,
    Cut,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    pub parts: Vec<PartStatus>,
    pub nodes: Vec<(String, NodeState)>,
}

type Reply = Result<Status, String>;

pub fn ask(dir: &Dir, request: &Request) -> Result<Status> {
    let socket = dir.file("control.sock");
    let mut stream = UnixStream::connect(&socket).with_context(|| format!("testbed {} is not running", dir.name()))?;
    writeln!(stream, "{}", serde_json::to_string(request)?)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let reply: Reply = serde_json::from_str(&line).context("the testbed ended before it answered")?;
    reply.map_err(|reason| anyhow!(reason))
}

/// Answers requests one after another, for ever.
pub fn serve(dir: &Dir, mut answer: impl FnMut(Request) -> Result<Status>) -> Result<()> {
    let listener = UnixListener::bind(dir.file("control.sock")).context("cannot listen for commands")?;
    for stream in listener.incoming() {
        let handled = stream.map_err(Into::into).and_then(|stream| handle(stream, &mut answer));
        if let Err(error) = handled {
            eprintln!("a command was lost: {error:#}");
        }
    }
    Ok(())
}

fn handle(mut stream: UnixStream, answer: &mut impl FnMut(Request) -> Result<Status>) -> Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let reply: Reply =
        serde_json::from_str(&line).map_err(Into::into).and_then(answer).map_err(|error| format!("{error:#}"));
    Ok(writeln!(stream, "{}", serde_json::to_string(&reply)?)?)
}
