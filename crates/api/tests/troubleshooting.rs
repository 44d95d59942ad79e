//! The page for people in trouble names conditions and reasons as the status has them.

use api::certificates::{CertificateCondition, CertificateReason};
use api::conditions::{ConditionType, Reason};
use std::collections::BTreeSet;

#[test]
fn every_reason_that_the_page_names_can_be_in_a_status() {
    let document = include_str!("../../../docs/troubleshooting.md");
    let known: BTreeSet<&str> = ConditionType::ALL
        .iter()
        .map(|it| it.as_str())
        .chain(Reason::ALL.iter().map(|it| it.as_str()))
        .chain(CertificateCondition::ALL.iter().map(|it| it.as_str()))
        .chain(CertificateReason::ALL.iter().map(|it| it.as_str()))
        .collect();
    let cells = document.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.split(" | ").nth(1));
    let named: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let unknown: Vec<&&str> = named.iter().filter(|name| !known.contains(**name)).collect();
    assert!(named.len() > 30 && unknown.is_empty(), "{} are named, of which nobody knows {unknown:?}", named.len());
}
