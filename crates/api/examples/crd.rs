//! Prints the CustomResourceDefinitions as YAML, or writes each into the folder given. A tool, run by `make generate`:
//! `cargo run -p api --example crd -- crates/api/crd`.

use anyhow::{Context, Result};
use std::path::Path;

fn main() -> Result<()> {
    let folder = std::env::args().nth(1);
    for definition in api::definition::all() {
        let text = api::yaml::to_string(&definition)?;
        let Some(folder) = &folder else {
            print!("---\n{text}");
            continue;
        };
        let name = definition.metadata.name.context("a definition has a name")?;
        let path = Path::new(folder).join(format!("{name}.yaml"));
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
