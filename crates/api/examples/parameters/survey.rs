//! What one server says about each of its parameters: default, whether it can change live, and which names mean the same.
//! IO; used by `main`.

use crate::server::{Reply, Server};
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::path::Path;

/// Changing these, even for a moment, would lock the tool itself out.
const LEFT_ALONE: [&str; 5] = ["bind", "maxmemory-clients", "port", "requirepass", "tls-port"];

pub struct Survey {
    pub version: String,
    pub parameters: BTreeMap<String, Finding>,
}

pub struct Finding {
    pub change: &'static str,
    pub default: String,
    /// The name the server itself writes for this parameter, when that is another one.
    pub alias_of: Option<String>,
}

pub fn take(program: &Path) -> Result<Survey> {
    let server = Server::start(program)?;
    let defaults = values(&server)?;
    let mut parameters = BTreeMap::new();
    for (name, default) in &defaults {
        let change = change_of(&server, name, default)?;
        let alias_of = alias_of(&server, name, &defaults)?;
        // Paths of the throw-away server are no defaults.
        let default = if ["dir", "unixsocket"].contains(&name.as_str()) { String::new() } else { default.clone() };
        parameters.insert(name.clone(), Finding { change, default, alias_of });
    }
    Ok(Survey { version: version(&server)?, parameters })
}

fn values(server: &Server) -> Result<BTreeMap<String, String>> {
    let Reply::List(list) = server.command(&["CONFIG", "GET", "*"])? else { bail!("CONFIG GET gave no list") };
    let mut pairs = list.into_iter();
    let mut found = BTreeMap::new();
    while let (Some(name), Some(value)) = (pairs.next(), pairs.next()) {
        found.insert(name, value);
    }
    Ok(found)
}

fn version(server: &Server) -> Result<String> {
    let Reply::Text(text) = server.command(&["INFO", "server"])? else { bail!("INFO gave no text") };
    match text.lines().find_map(|line| line.strip_prefix("valkey_version:")) {
        Some(version) => Ok(version.to_owned()),
        None => bail!("INFO names no valkey_version"),
    }
}

/// Setting a parameter to the value it has shows what the server thinks of changing it.
fn change_of(server: &Server, name: &str, value: &str) -> Result<&'static str> {
    let Reply::Error(error) = server.command(&["CONFIG", "SET", name, value])? else { return Ok("live") };
    match error {
        error if error.contains("immutable config") => Ok("restart"),
        error if error.contains("protected config") => Ok("protected"),
        // The parameter is listed, the build cannot do it (RDMA): setting it would be refused, live or at start.
        error if error.contains("building support") => Ok("restart"),
        error => bail!("CONFIG SET {name} {value:?} was refused in an unknown way: {error}"),
    }
}

/// Changes the parameter and looks which other names changed with it and which of them the server writes to its file.
fn alias_of(server: &Server, name: &str, defaults: &BTreeMap<String, String>) -> Result<Option<String>> {
    let spelled = spelling_of(name).filter(|other| defaults.contains_key(other));
    let (Some(value), false) = (defaults.get(name), LEFT_ALONE.contains(&name)) else { return Ok(spelled) };
    let Reply::Text(_) = server.command(&["CONFIG", "SET", name, &other_than(value)])? else { return Ok(spelled) };
    let same: Vec<String> = changed(&values(server)?, defaults);
    let written = if same.len() > 1 { written_name(server, &same)? } else { None };
    server.command(&["CONFIG", "SET", name, value])?;
    Ok(written.filter(|written| written != name))
}

/// Names of what cannot change live: the server takes an underscore for a dash there, and one old word.
fn spelling_of(name: &str) -> Option<String> {
    let modern = name.replace('_', "-").replace("slaveof", "replicaof");
    (modern != name).then_some(modern)
}

fn other_than(value: &str) -> String {
    match (value, value.parse::<i64>()) {
        ("yes", _) => "no".to_owned(),
        ("no", _) => "yes".to_owned(),
        (_, Ok(number)) => (number + 1).to_string(),
        (text, Err(_)) => format!("{text}x"),
    }
}

fn changed(now: &BTreeMap<String, String>, before: &BTreeMap<String, String>) -> Vec<String> {
    now.iter().filter(|(name, value)| before.get(*name) != Some(value)).map(|(name, _)| name.clone()).collect()
}

fn written_name(server: &Server, names: &[String]) -> Result<Option<String>> {
    let Reply::Text(_) = server.command(&["CONFIG", "REWRITE"])? else { bail!("CONFIG REWRITE was refused") };
    let file = std::fs::read_to_string(server.config_file())?;
    let first_words: Vec<&str> = file.lines().filter_map(|line| line.split(' ').next()).collect();
    Ok(names.iter().find(|name| first_words.contains(&name.as_str())).cloned())
}
