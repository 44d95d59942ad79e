//! Writes the CustomResourceDefinitions of the certificate resources into the folder given. A tool:
//! `cargo run -p api --example certificate_crds -- crates/api/crd-next`.

use anyhow::{Context, Result};
use std::path::Path;

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).context("name the folder to write to")?;
    for definition in api::definition::certificates() {
        let name = definition.metadata.name.clone().context("a definition has a name")?;
        let path = Path::new(&folder).join(format!("{name}.yaml"));
        std::fs::write(&path, serde_yaml_ng::to_string(&definition)?)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
