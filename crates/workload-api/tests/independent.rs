//! An opinion that is not ours: SPIFFE's own Go client reads the server of our tests, and our client follows a server on the gRPC
//! library that SPIRE uses. The Go program is in `tests/go-spiffe`; Go keeps what it built in its own cache.

use anyhow::{Context, Result, ensure};
use link::IdentitySource;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};
use tokio::time::timeout;
use workload_api::{
    Endpoint, Source, Times,
    testing::{Agent, Domain},
};

const SIDECAR: &str = "spiffe://team-a/valkeycluster/orders/sidecar";
const DEADLINE: Duration = Duration::from_secs(120);

/// The Go program, built if its sources changed; each test has its own file of it.
fn program(name: &str) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go-spiffe");
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("workload-api-{name}"));
    let built = Command::new("go").args(["build", "-o"]).arg(&binary).arg(".").current_dir(sources).output();
    let built = built.context("this test needs Go: install the package golang-go, or put go into the PATH")?;
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    ensure!(built.status.success(), "go build failed in crates/workload-api/tests/go-spiffe:\n{said}");
    Ok(binary)
}

async fn fetch(program: PathBuf, socket: PathBuf) -> Result<(bool, String)> {
    let run = move || Command::new(program).arg("fetch").arg(socket).output();
    let output = tokio::task::spawn_blocking(run).await??;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8(text)?))
}

#[tokio::test]
async fn spiffes_own_client_understands_the_server_of_our_tests() -> Result<()> {
    let (program, folder) = (program("fetch")?, tempfile::tempdir()?);
    let socket = folder.path().join("agent.sock");
    let (agent, team, system) = (Agent::listen(&socket)?, Domain::new("team-a")?, Domain::new("valkey-system")?);
    let other = "spiffe://team-a/other";
    let svids = vec![team.svid(SIDECAR, DEADLINE)?, team.svid(other, DEADLINE)?];
    agent.give(svids, HashMap::from([(system.id(), system.bundle())]));
    let expected = format!("{SIDECAR}\n{other}\nteam-a has 1 roots\nvalkey-system has 1 roots\n");
    assert_eq!(fetch(program.clone(), socket.clone()).await?, (true, expected));
    agent.deny();
    let (success, said) = fetch(program, socket).await?;
    ensure!(!success && said.contains("PermissionDenied"), "{said}");
    Ok(())
}

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn our_client_follows_a_server_on_the_library_that_spire_uses() -> Result<()> {
    let (program, folder) = (program("serve")?, tempfile::tempdir()?);
    let socket = folder.path().join("agent.sock");
    let serve = || anyhow::Ok(Serving(Command::new(&program).arg("serve").arg(&socket).spawn()?));
    let serving = serve()?;
    let source = Source::follow(Endpoint::Unix(socket.clone()), SIDECAR.parse()?, Times::default());
    let mut current = timeout(DEADLINE, source.current()).await.context("no identity came")?;
    ensure!(current.borrow().id().to_string() == SIDECAR && current.borrow().trusted_roots().len() == 2);
    for _ in 0..3 {
        timeout(DEADLINE, current.changed()).await.context("no further identity came")??;
    }
    drop(serving);
    std::fs::remove_file(&socket)?;
    let old = current.borrow_and_update().trusted_roots();
    let _serving = serve()?;
    let renewed = current.wait_for(|now| now.trusted_roots() != old);
    timeout(DEADLINE, renewed).await.context("the server that came back was not found")??;
    ensure!(source.problem().is_none(), "{:?}", source.problem());
    Ok(())
}
