//! What `status` and `logs` print.

use std::fs;

use anyhow::{Result, bail};

use crate::command::tail;
use crate::control::{self, Request};
use crate::control_plane::kubectl;
use crate::journal;
use crate::layout::{Dir, Testbed};

pub fn status(testbed: &Testbed, json: bool) -> Result<()> {
    let dir = testbed.dir();
    if !journal::is_ready(&dir) {
        bail!("testbed {} is still starting", testbed.name);
    }
    let status = control::ask(&dir, &Request::Status)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({"testbed": testbed, "status": status}))?);
        return Ok(());
    }
    println!("testbed {}   {}   KUBECONFIG={}", testbed.name, testbed.api_server(), dir.kubeconfig().display());
    for part in &status.parts {
        let state = if part.running { "running" } else { "stopped" };
        let restarts = if part.restarts > 0 { format!("  restarted {} times", part.restarts) } else { String::new() };
        println!("  {:<26} {state}{restarts}", part.name);
    }
    for (node, state) in &status.nodes {
        println!("  {node:<26} {}", format!("{state:?}").to_lowercase());
    }
    print!("{}", kubectl(&dir, &["get", "nodes", "-L", "topology.kubernetes.io/zone"])?);
    Ok(())
}

pub fn logs(dir: &Dir, part: Option<&str>, lines: usize) -> Result<()> {
    let entries = fs::read_dir(dir.file("logs")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".log").map(str::to_owned));
    let mut known: Vec<String> = names.collect();
    known.sort();
    if known.is_empty() {
        bail!("there is no testbed {}", dir.name());
    }
    match part {
        None => println!("{}", known.join("\n")),
        Some(part) if known.iter().any(|name| name == part) => println!("{}", tail(&dir.log(part), lines)),
        Some(part) => bail!("there is no part {part:?}; there are: {}", known.join(", ")),
    }
    Ok(())
}
