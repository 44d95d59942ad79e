//! The objects of every case as committed YAML, and the table of what each field changes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

mod support;

use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write;
use support::{cases, golden, objects, values};

#[test]
fn the_objects_of_every_case_are_as_committed() {
    for (name, spec) in cases().unwrap() {
        let documents = values(objects(spec).unwrap()).unwrap();
        let texts: Vec<String> = documents.iter().map(|(_, value)| serde_yaml_ng::to_string(value).unwrap()).collect();
        golden(&format!("{name}.yaml"), &texts.join("---\n")).unwrap();
    }
}

#[test]
fn the_table_of_what_each_field_changes_is_as_committed() {
    golden("effects.md", &effects().unwrap()).unwrap();
}

/// `kubectl explain` says of each field whether a change of it waits for a restart.
#[test]
fn a_field_says_that_it_waits_for_a_restart_exactly_when_it_does() {
    let definition = serde_json::to_value(api::definition::valkey_cluster()).unwrap();
    let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for row in effects().unwrap().lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (field, due) = (cells[1], cells[4] == "yes");
        // Of parameters it depends on which; other names stand for a field in company.
        let Some(text) = spec[field]["description"].as_str() else { continue };
        assert_eq!(text.replace('\n', " ").contains("effect when the pods restart"), due, "{field}: {text}");
    }
}

fn effects() -> Result<String> {
    let mut cases = cases()?;
    let minimal = values(objects(cases.remove("minimal").context("no case minimal")?)?)?;
    cases.remove("full");
    let mut text = String::from(
        "# What each field of the spec changes\n\nAgainst a cluster with an empty spec. A restart is due when the pod template's \
         `valkey.io/restart-revision` changes.\n\n| Case | Objects that differ | Pod template | Restart due |\n|---|---|---|---|\n",
    );
    for (name, spec) in cases {
        let changed = values(objects(spec)?)?;
        let kinds: Vec<&str> = changed.iter().filter(|entry| !minimal.contains(entry)).map(|(kind, _)| *kind).collect();
        let [before, after] = [&minimal, &changed].map(|list| template(list));
        let revision =
            |template: &Value| template.pointer("/metadata/annotations/valkey.io~1restart-revision").cloned();
        let template_cell = if before == after { "same" } else { "differs" };
        let restart_cell = if revision(&before) == revision(&after) { "no" } else { "yes" };
        writeln!(text, "| {name} | {} | {template_cell} | {restart_cell} |", kinds.join(", "))?;
    }
    Ok(text)
}

fn template(objects: &[(&str, Value)]) -> Value {
    let set = objects.iter().find(|(kind, _)| *kind == "StatefulSet");
    set.and_then(|(_, value)| value.pointer("/spec/template")).cloned().unwrap_or_default()
}
