//! Too few primaries are left to elect anybody: it is said, and said without a break.

use crate::support::{Outcome, ends_whole, formed, golden};
use api::conditions::Reason;
use planner::nodes::FindingKind;
use simulation::{Setup, Stage};

fn reason(stage: &Stage, kind: FindingKind) -> Option<(Option<bool>, Reason)> {
    let findings = stage.operators.iter().flat_map(|operator| &operator.decision.findings);
    let mut findings = findings.filter(|finding| finding.kind == kind);
    findings.next().map(|finding| (finding.status, finding.reason))
}

#[test]
fn two_of_three_primaries_whose_nodes_lose_power_are_missed_and_come_back() -> Outcome {
    let mut stage = formed(80, &[Setup { kubernetes_nodes: 6, ..Setup::default() }])?;
    let lost: Vec<String> = stage.world.primaries().into_iter().take(2).collect();
    stage.note("the nodes of two of three primaries are cut off");
    let nodes: Vec<String> = lost.iter().map(|pod| stage.world.pods[pod].kubernetes_node.clone()).collect();
    stage.world.cut.extend(nodes);
    stage.run(10_000)?;
    for _ in 0..1_000 {
        stage.tick()?;
        let said = (reason(&stage, FindingKind::Degraded), reason(&stage, FindingKind::SlotsCovered));
        let expected = (Some((Some(true), Reason::MajorityLost)), Some((Some(false), Reason::PrimaryDown)));
        assert_eq!(said, expected, "{}", stage.complaint());
    }
    stage.note("they are back");
    stage.world.cut.clear();
    ends_whole(&mut stage, 60_000)?;
    golden(&stage, "majority-cut-off")
}
