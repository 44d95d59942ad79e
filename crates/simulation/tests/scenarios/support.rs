//! What all scenarios share: a formed cluster with keys, and the comparison with the committed transcript.

use simulation::{Setup, Stage};
use std::path::Path;

pub type Outcome = Result<(), String>;

/// A formed cluster with two hundred keys that replicas have too.
pub fn formed(seed: u64, setups: &[Setup]) -> Result<Stage, String> {
    let mut stage = Stage::new(seed, setups);
    stage.until_healthy(60_000)?;
    for setup in setups {
        write_keys(&mut stage, setup.name);
    }
    stage.run(1_000)?;
    Ok(stage)
}

pub fn write_keys(stage: &mut Stage, cluster: &str) {
    let base = stage.world.acknowledged.len() as u32;
    assert!((base..base + 200).all(|key| stage.world.write(cluster, key)), "every slot is served");
}

/// Ends whole, with every acknowledged key readable, and then says nothing more.
pub fn ends_whole(stage: &mut Stage, limit: u64) -> Outcome {
    stage.until_healthy(limit)?;
    let unreadable = stage.world.unreadable();
    if !unreadable.is_empty() {
        return Err(format!("{} keys cannot be read\n{}", unreadable.len(), stage.complaint()));
    }
    stage.stays_still(10_000)
}

/// Compares with the committed transcript.
pub fn golden(stage: &Stage, name: &str) -> Outcome {
    let transcript = stage.operators.first().map(|operator| operator.transcript.join("\n"));
    compare(&format!("transcripts/{name}.txt"), &(transcript.unwrap_or_default() + "\n"))
}

/// Compares with the committed file, or rewrites it when UPDATE_GOLDEN is set.
pub fn compare(file: &str, fresh: &str) -> Outcome {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(&path, fresh).map_err(|error| error.to_string());
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(fresh.lines()).position(|(one, two)| one != two);
    match kept == fresh {
        true => Ok(()),
        false => Err(format!(
            "{file} differs from line {} on: look at it with UPDATE_GOLDEN=1 cargo test -p simulation; git diff",
            differs.unwrap_or_else(|| kept.lines().count().min(fresh.lines().count())) + 1
        )),
    }
}

pub fn primary_of(stage: &Stage, index: usize) -> String {
    stage.world.primaries().get(index).cloned().unwrap_or_default()
}

/// The pod that replicates this one.
pub fn replica_of(stage: &Stage, pod: &str) -> String {
    let id = stage.world.node(pod).map(|node| node.id.clone());
    let replica = stage.world.nodes().find(|node| node.primary == id);
    replica.map(|node| node.pod.clone()).unwrap_or_default()
}
