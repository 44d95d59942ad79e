//! The tests there are: cargo compiles them all in one go and names the binaries, and these list what is in them. IO.

use crate::{process, session::Session};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    rc::Rc,
    time::Duration,
};
use tokio::{process::Command, time::timeout};

/// Bare machines compile every dependency first.
const COMPILING: Duration = Duration::from_secs(3600);
const LISTING: Duration = Duration::from_secs(60);

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

/// What could be found out, and what could not: a name and the reason.
#[derive(Default)]
pub struct Found {
    pub cases: Vec<Case>,
    pub failures: Vec<(String, String)>,
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

    async fn cases(self: Rc<Self>) -> Result<Vec<Case>, String> {
        let long: BTreeSet<_> = self.list(&["--ignored"]).await?.into_iter().collect();
        let case = |path: String| Case { suite: self.clone(), long: long.contains(&path), path };
        Ok(self.list(&[]).await?.into_iter().map(case).collect())
    }

    async fn list(&self, more: &[&str]) -> Result<Vec<String>, String> {
        let mut command = self.command();
        command.args(["--list", "--format", "terse"]).args(more).stdin(Stdio::null()).kill_on_drop(true);
        let listed = timeout(LISTING, command.output()).await.map_err(|_| "it does not end".to_owned())?;
        let output = listed.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{}; {}", output.status, String::from_utf8_lossy(&output.stderr).trim()));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }
}

/// Compiles the programs and all tests of the workspace, with one set of features: what tests and demos use is compiled once.
/// What does not compile is a failure; what does is found all the same.
pub async fn compile(session: &Session) -> Found {
    let (log, messages) = (session.log_of("compile"), session.log_of("compile.json"));
    let mut command = Command::new("cargo");
    command.args(["build", "--workspace", "--bins", "--tests", "--keep-going"]);
    command.arg("--message-format=json-render-diagnostics").current_dir(&session.repository);
    let ended = match (File::create(&messages), File::create(&log)) {
        (Ok(out), Ok(error)) => {
            command.stdout(Stdio::from(out)).stderr(Stdio::from(error));
            process::end(session, command, COMPILING).await
        }
        _ => Err(format!("cannot write to {}", session.logs.display())),
    };
    let mut found = list(fs::read_to_string(&messages).unwrap_or_default().lines().filter_map(suite)).await;
    found.failures.extend(ended.err().map(|reason| ("compile".to_owned(), reason)));
    if found.cases.is_empty() && found.failures.is_empty() {
        found.failures.push(("compile".to_owned(), "cargo named no tests".to_owned()));
    }
    found
}

async fn list(suites: impl Iterator<Item = Suite>) -> Found {
    let mut found = Found::default();
    for suite in suites.map(Rc::new) {
        match suite.clone().cases().await {
            Ok(cases) => found.cases.extend(cases),
            Err(reason) => found.failures.push((suite.title.clone(), format!("cannot list its tests: {reason}"))),
        }
    }
    found
}

/// Cargo's message about something it compiled, as far as it matters here.
#[derive(Deserialize)]
struct Artifact {
    reason: String,
    package_id: String,
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A test binary, if that is what cargo's message is about.
fn suite(message: &str) -> Option<Suite> {
    let artifact: Artifact = serde_json::from_str(message).ok()?;
    if artifact.reason != "compiler-artifact" || !artifact.profile.test {
        return None;
    }
    let directory = artifact.manifest_path.parent()?.to_owned();
    let package = package_of(&artifact.package_id, &directory)?;
    let beside_code = artifact.target.kind.iter().all(|kind| kind != "test");
    let title = if beside_code { package.clone() } else { format!("{package}/{}", artifact.target.name) };
    Some(Suite { package, title, executable: artifact.executable?, directory })
}

/// `path+file:///…/crates/api#0.1.0` or, where folder and package differ, `…/testbed/agent#testbed-agent@0.1.0`.
fn package_of(id: &str, directory: &Path) -> Option<String> {
    let fragment = id.rsplit_once('#')?.1;
    let named = fragment.split_once('@').map(|(name, _)| name.to_owned());
    named.or_else(|| Some(directory.file_name()?.to_string_lossy().into_owned()))
}

/// Test binaries that are shell scripts, for tests of the runner.
#[cfg(test)]
pub mod scripted {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Does `list` when asked for its tests, else `run` with the name of a test in `$2`.
    pub fn suite(folder: &Path, list: &str, run: &str) -> Suite {
        let executable = folder.join("suite");
        let script = format!("#!/bin/sh\nif [ \"$1\" = --list ]; then\n{list}\nelse\n{run}\nfi\n");
        fs::write(&executable, script).unwrap();
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
        Suite { package: "scripted".into(), title: "scripted".into(), executable, directory: folder.to_owned() }
    }

    /// One that has these tests, none of them long.
    pub async fn cases(folder: &Path, names: &[&str], run: &str) -> Vec<Case> {
        let lines: String = names.iter().map(|name| format!("echo '{name}: test'\n")).collect();
        let list_all = format!("[ \"$4\" = --ignored ] || {{ {lines} :; }}");
        list(std::iter::once(suite(folder, &list_all, run))).await.cases
    }
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
    #[tokio::test]
    async fn tests_are_listed_and_the_ignored_ones_are_long() {
        let folder = tempfile::tempdir().unwrap();
        let script = "[ \"$4\" = --ignored ] || echo 'quick: test'; echo 'slow: test'; echo 'fast: benchmark'";
        let found = list(std::iter::once(scripted::suite(folder.path(), script, ":"))).await;
        let cases: Vec<_> = found.cases.iter().map(|case| (case.name(), case.long)).collect();
        assert_eq!(cases, [("scripted::quick".to_owned(), false), ("scripted::slow".to_owned(), true)]);
    }

    #[tokio::test]
    async fn a_binary_that_cannot_be_listed_is_a_failure_and_hides_no_other() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let broken = scripted::suite(folders[0].path(), "echo no library >&2; exit 127", ":");
        let sound = scripted::suite(folders[1].path(), "echo 'works: test'", ":");
        let found = list([broken, sound].into_iter()).await;
        let reason = "cannot list its tests: exit status: 127; no library";
        assert_eq!(found.failures, [("scripted".to_owned(), reason.to_owned())]);
        assert_eq!(found.cases.len(), 1);
    }
}
