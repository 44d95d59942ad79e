//! Asks a real Valkey 8.1 and 9.1 for their parameters and writes `src/parameters/table.rs`. A tool, run by `make generate`:
//! `VALKEY_SERVER_8_1=… VALKEY_SERVER_9_1=… cargo run -p api --example parameters` (`--check` only compares).

mod render;
mod server;
mod survey;

use anyhow::{Context, Result, bail};
use std::path::Path;

fn main() -> Result<()> {
    let old = survey_of("VALKEY_SERVER_8_1", "8.1.")?;
    let new = survey_of("VALKEY_SERVER_9_1", "9.1.")?;
    let table = render::table(&old, &new);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/parameters/table.rs");
    if std::env::args().any(|argument| argument == "--check") {
        return compare(&path, &table);
    }
    std::fs::write(&path, table).with_context(|| format!("writing {}", path.display()))
}

fn survey_of(variable: &str, line: &str) -> Result<survey::Survey> {
    let program = std::env::var_os(variable).with_context(|| {
        format!("{variable} is not set: `export $(images/fetch-valkey)` unpacks servers and sets it")
    })?;
    let found = survey::take(Path::new(&program)).with_context(|| format!("surveying {variable}"))?;
    if !found.version.starts_with(line) {
        bail!("{variable} is Valkey {}, wanted {line}x", found.version);
    }
    Ok(found)
}

fn compare(path: &Path, table: &str) -> Result<()> {
    if std::fs::read_to_string(path)? != table {
        bail!("{} differs from what the servers say: run `make generate` and commit the result", path.display());
    }
    Ok(())
}
