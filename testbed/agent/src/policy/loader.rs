//! Loads a node's rules into its network namespace with iptables. IO; called by `enforcer`.

use std::path::Path;

use super::rules::NodeRules;
use super::ruleset::{Loaded, render, revision};
use crate::command::{CommandError, run, run_with_input};

/// What `ensure` found and did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    InForce,
    Reloaded,
}

/// Brings the namespace to `rules` in one transaction, unless it is there already.
pub async fn ensure(netns: &Path, rules: &NodeRules) -> Result<Outcome, CommandError> {
    let enter = format!("--net={}", netns.display());
    let saved = run("nsenter", &[&enter, "iptables-save", "-t", "filter"]).await?;
    let loaded = Loaded::parse(&saved);
    if loaded.enforces(&revision(rules)) {
        return Ok(Outcome::InForce);
    }
    // `--wait` because kube-proxy loads its own rules into the same table at any time.
    let restore = [&enter, "iptables-restore", "--noflush", "--wait", "5"];
    run_with_input("nsenter", &restore, &render(rules, &loaded)).await?;
    Ok(Outcome::Reloaded)
}
