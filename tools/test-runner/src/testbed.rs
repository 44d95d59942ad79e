//! A testbed for the time of a run: up, with images and the operator if wanted, and down again whatever happens. IO through its driver.

use crate::{
    pool::{prepare, tidy},
    session::Session,
};
use tokio::process::Command;

/// All that any testbed of a run loads.
pub const IMAGES: [&str; 6] = ["valkey-8.1", "valkey-9.1", "exporter", "operator", "sidecar", "sidecar-older"];
/// How programs in images for tests are compiled.
const PROFILE: &str = "quick";

pub struct Testbed<'a> {
    session: &'a Session,
    part: &'static str,
    pub name: String,
}

/// The name of all testbeds of this run begins with it, so that runs beside each other do not meet.
pub fn base_name() -> String {
    std::env::var("TESTBED_NAME").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "test".to_owned())
}

impl<'a> Testbed<'a> {
    pub fn named(session: &'a Session, part: &'static str, name: String) -> Self {
        Self { session, part, name }
    }

    pub fn variables(&self) -> Vec<(String, String)> {
        vec![("TESTBED_NAME".to_owned(), self.name.clone())]
    }

    pub async fn up(&self, nodes: u8, images: &[&str]) -> bool {
        let count = nodes.to_string();
        let up = self.driven(&["up", "--nodes", &count, "--with", "helm"]);
        prepare(self.session, self.part, &format!("{}: start", self.name), up).await && self.load(images).await
    }

    async fn load(&self, images: &[&str]) -> bool {
        let script = "set -o pipefail; images/build \"$@\" | cut -d' ' -f2 | xargs \"$TESTBED_BIN\" load";
        let mut command = Command::new("bash");
        command.args(["-c", script, "load"]).args(images).envs(self.variables());
        command.env("TESTBED_BIN", driver(self.session)).env("IMAGE_PROFILE", PROFILE);
        prepare(self.session, self.part, &format!("{}: load images", self.name), command).await
    }

    pub async fn install_operator(&self) -> bool {
        let mut command = Command::new("e2e/install-operator");
        command.envs(self.variables()).env("TESTBED_BIN", driver(self.session));
        prepare(self.session, self.part, &format!("{}: install the operator", self.name), command).await
    }

    /// With `E2E_KEEP` it stays for people to look at.
    pub async fn down(&self) {
        if std::env::var_os("E2E_KEEP").is_none() {
            tidy(self.session, self.part, &format!("{}: take down", self.name), self.driven(&["down"])).await;
        }
    }

    fn driven(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(driver(self.session));
        command.args(["--name", &self.name]).args(arguments);
        command
    }

    /// Puts its kubectl and helm before those of the machine.
    pub fn tools(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        vec![("PATH".to_owned(), format!("/var/lib/valkey-testbed/{}/bin:{path}", self.name))]
    }

    pub fn kubeconfig(&self) -> String {
        format!("/var/lib/valkey-testbed/{}/kubeconfig", self.name)
    }
}

/// Puts images into the cache, from where testbeds load them.
pub fn build(images: &[&str]) -> Command {
    let mut command = Command::new("images/build");
    command.args(images).env("IMAGE_PROFILE", PROFILE);
    command
}

pub fn driver(session: &Session) -> std::path::PathBuf {
    session.target.join("debug/testbed")
}
