//! The text of valkey.conf. Pure; `run` writes it, `render` prints it.

use super::{data_folder::DataFolder, fixed, modules::Modules, record::Record, wanted::Wanted};
use crate::arguments::PodArguments;
use api::{node_settings::NodeSettings, valkey_version::ValkeyVersion};
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Everything that no server has refused.
    Hopeful,
    /// Only what a server of this line has accepted before: chosen when Valkey does not come up.
    Proven,
}

pub struct Inputs<'a> {
    pub pod: &'a PodArguments,
    pub settings: &'a NodeSettings,
    pub version: ValkeyVersion,
    pub record: &'a Record,
    pub data: DataFolder,
    pub trust: Trust,
}

pub fn conf(inputs: &Inputs<'_>) -> String {
    let wanted = Wanted::new(inputs.pod, inputs.settings, inputs.version);
    let append_only = inputs.data.start_with_append_only(wanted.append_only, inputs.record.append_only_replaced);
    let mut text = String::from("# Written by valkey-sidecar, which overwrites every edit.\n");
    for (name, value) in fixed::parameters(inputs.pod, inputs.settings, inputs.version) {
        line(&mut text, name, &value);
    }
    // Before the data is loaded, and whatever else is left out: data may be of their types.
    for words in inputs.pod.modules.iter().flat_map(Modules::arguments) {
        let quoted: Vec<String> = words.into_iter().map(quote).collect();
        let _ = writeln!(text, "loadmodule {}", quoted.join(" "));
    }
    line(&mut text, "appendonly", if append_only { "yes" } else { "no" });
    for (name, value) in &wanted.restart {
        line(&mut text, name, value);
    }
    for (name, value) in &wanted.live {
        match wanted.chosen.contains(name) {
            true => line(&mut text, name, value),
            false => live_line(&mut text, name, value, inputs),
        }
    }
    for name in wanted.tried.keys() {
        comment(&mut text, name, "not every Valkey has it; it is set on a running one that does");
    }
    for (name, reason) in &wanted.ignored {
        comment(&mut text, name, reason);
    }
    text
}

fn live_line(text: &mut String, name: &str, value: &str, inputs: &Inputs<'_>) {
    let record = inputs.record;
    let accepted = record.accepted.get(name).filter(|_| record.line == line_of(inputs.version));
    let doubtful = inputs.trust == Trust::Proven || record.refuses(name, value);
    match (doubtful, accepted) {
        (false, _) => line(text, name, value),
        (true, Some(accepted)) => line(text, name, &accepted.value),
        (true, None) => comment(text, name, "no server has accepted its value yet; it is set on the running server"),
    }
}

/// `9.1` of `9.1.2`.
pub fn line_of(version: ValkeyVersion) -> String {
    format!("{}.{}", version.major, version.minor)
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name} {}", quote(value));
}

fn comment(text: &mut String, name: &str, reason: &str) {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(text, "# {name}: left out, {reason}");
}

/// One argument as Valkey's parser reads it; nothing in a value can end the line or begin another directive.
fn quote(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@+*%".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    let mut quoted = String::from("\"");
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            other => {
                let _ = write!(quoted, "\\x{other:02x}");
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
