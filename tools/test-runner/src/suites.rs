//! The tests there are: cargo compiles them all in one go and names the binaries, and these list what is in them. IO.

use crate::{process, session::Session};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    rc::Rc,
    time::Duration,
};
use tokio::process::Command;

/// Bare machines compile every dependency first.
const COMPILING: Duration = Duration::from_secs(3600);

/// A binary full of tests.
pub struct Suite {
    pub package: String,
    /// `package` for tests beside the code, `package/name` for those in `tests/`.
    title: String,
    executable: PathBuf,
    directory: PathBuf,
}

#[derive(Clone)]
pub struct Case {
    pub suite: Rc<Suite>,
    path: String,
    /// Marked `#[ignore]`: it only repeats what others show, and is for `make test-long`.
    pub long: bool,
}

impl Case {
    pub fn name(&self) -> String {
        format!("{}::{}", self.suite.title, self.path)
    }

    /// This test alone, as `cargo test` would run it.
    pub fn command(&self) -> Command {
        let mut command = self.suite.command();
        command.args(["--exact", &self.path, "--nocapture", "--include-ignored"]);
        command
    }
}

impl Suite {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }

    async fn list(&self, more: &[&str]) -> Result<Vec<String>> {
        let mut command = self.command();
        let output = command.args(["--list", "--format", "terse"]).args(more).output().await;
        let output = output.with_context(|| format!("list the tests of {}", self.title))?;
        let text = String::from_utf8(output.stdout).context("names of tests are UTF-8")?;
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }
}

/// Compiles the programs and all tests of the workspace, with one set of features: what tests, demos and images use is compiled once.
/// What does not compile is an error; what does is given all the same.
pub async fn compile(session: &Session) -> (Vec<Case>, process::Ended) {
    let (log, messages) = (session.log_of("compile"), session.log_of("compile.json"));
    let mut command = Command::new("cargo");
    command.args([
        "build",
        "--workspace",
        "--bins",
        "--tests",
        "--keep-going",
        "--message-format=json-render-diagnostics",
    ]);
    command.current_dir(&session.repository);
    let ended = match (File::create(&messages), File::create(&log)) {
        (Ok(out), Ok(error)) => {
            command.stdout(Stdio::from(out)).stderr(Stdio::from(error));
            process::end(session, command, COMPILING).await
        }
        _ => Err(format!("cannot write to {}", session.logs.display())),
    };
    match cases(&messages).await {
        Ok(cases) => (cases, ended),
        Err(error) => (Vec::new(), ended.and(Err(format!("{error:#}")))),
    }
}

async fn cases(messages: &Path) -> Result<Vec<Case>> {
    let text = fs::read_to_string(messages).context("read what cargo said")?;
    let mut cases = Vec::new();
    for suite in text.lines().filter_map(suite).map(Rc::new) {
        let long: BTreeSet<_> = suite.list(&["--ignored"]).await?.into_iter().collect();
        let paths = suite.list(&[]).await?;
        cases.extend(paths.into_iter().map(|path| Case { suite: suite.clone(), long: long.contains(&path), path }));
    }
    if cases.is_empty() {
        bail!("cargo named no tests");
    }
    Ok(cases)
}

/// A test binary, if that is what cargo's message is about.
fn suite(message: &str) -> Option<Suite> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let directory = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = package_of(message["package_id"].as_str()?, &directory)?;
    let (name, kind) = (message["target"]["name"].as_str()?, message["target"]["kind"][0].as_str()?);
    let title = if kind == "test" { format!("{package}/{name}") } else { package.clone() };
    Some(Suite { package, title, executable: message["executable"].as_str()?.into(), directory })
}

/// `path+file:///…/crates/api#0.1.0` or, where folder and package differ, `…/testbed/agent#testbed-agent@0.1.0`.
fn package_of(id: &str, directory: &Path) -> Option<String> {
    let fragment = id.rsplit_once('#')?.1;
    let named = fragment.split_once('@').map(|(name, _)| name.to_owned());
    named.or_else(|| Some(directory.file_name()?.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, kind: &str, test: bool) -> String {
        serde_json::json!({
            "reason": "compiler-artifact", "package_id": id, "manifest_path": "/repo/crates/link/Cargo.toml",
            "target": {"name": "line", "kind": [kind]}, "profile": {"test": test}, "executable": "/target/debug/deps/line-1",
        })
        .to_string()
    }

    #[test]
    fn a_test_binary_is_known_by_package_and_file() {
        let found = suite(&message("path+file:///repo/crates/link#0.1.0", "test", true)).unwrap();
        assert_eq!((found.title.as_str(), found.directory.as_path()), ("link/line", Path::new("/repo/crates/link")));
        let found = suite(&message("path+file:///repo/testbed/agent#testbed-agent@0.1.0", "lib", true)).unwrap();
        assert_eq!(found.title, "testbed-agent");
    }

    #[test]
    fn programs_and_other_messages_are_no_suites() {
        assert!(suite(&message("path+file:///repo/crates/link#0.1.0", "bin", false)).is_none());
        assert!(suite(r#"{"reason":"build-finished","success":true}"#).is_none());
        assert!(suite("not even JSON").is_none());
    }
}
