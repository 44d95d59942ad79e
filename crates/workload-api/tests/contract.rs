//! Keeps the committed generated code equal to what the contract generates.

use anyhow::{Context, Result, ensure};
use std::{fs, path::Path};

const CONTRACT: &str = "spiffe/workload_api.proto";

#[test]
fn the_generated_code_is_what_the_contract_generates() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = root.join("src/generated/workload_api.rs");
    let fresh = generate(&root.join("../../proto"))?;
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&committed, &fresh)?;
    }
    let kept = fs::read_to_string(&committed).unwrap_or_default();
    ensure!(kept == fresh, "the generated code is stale: UPDATE_GOLDEN=1 cargo test -p workload-api --test contract");
    Ok(())
}

/// The contract has no package, so the generator has no better name than `_` for it.
fn generate(proto: &Path) -> Result<String> {
    let descriptors = protox::compile([CONTRACT], [proto]).context("the contract does not compile")?;
    let folder = tempfile::tempdir()?;
    let builder = tonic_prost_build::configure().build_transport(false).skip_debug(["X509SVID"]).out_dir(folder.path());
    builder.compile_fds(descriptors)?;
    fs::read_to_string(folder.path().join("_.rs")).context("nothing was generated")
}
