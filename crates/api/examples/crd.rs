//! Prints the CustomResourceDefinition as YAML, or writes it into the folder given. A tool, run by `make generate`:
//! `cargo run -p api --example crd -- crates/api/crd`.

use anyhow::{Context, Result};
use std::path::Path;

fn main() -> Result<()> {
    let text = api::yaml::to_string(&api::definition::valkey_cluster())?;
    let Some(folder) = std::env::args().nth(1) else {
        print!("{text}");
        return Ok(());
    };
    let path = Path::new(&folder).join("valkeyclusters.valkey.io.yaml");
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}
