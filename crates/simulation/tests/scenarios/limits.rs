//! Large clusters: what is kept in the status stays small, and views are not read from everybody.

use crate::support::Outcome;
use simulation::{Setup, Stage};

#[test]
fn a_thousand_nodes_form_and_the_status_stays_under_300_kilobytes() -> Outcome {
    let setup = Setup { masters: 500, kubernetes_nodes: 50, zones: 5, ..Setup::default() };
    let mut stage = Stage::new(60, &[setup]);
    let took = stage.until_healthy(120_000)?;
    let durable = &stage.operators[0].durable;
    let bytes = serde_json::to_vec(&durable.shards).map_err(|error| error.to_string())?.len();
    println!("formed in {took} ms of its time; status.shards has {bytes} bytes");
    assert!(bytes < 300_000, "{bytes} bytes");
    assert_eq!(durable.shards.len(), 500);
    Ok(())
}
