//! The Events that a change of conditions is worth. Pure; a state that lasts is told once, when it begins.

use api::conditions::{ConditionType, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Why Ready ends for a while when somebody changes the spec.
const OF_A_CHANGE: [Reason; 5] =
    [Reason::PodsStarting, Reason::PodsNotReady, Reason::ReplicasMissing, Reason::ReplicasSyncing, Reason::ViewsDiffer];
/// Why it ends while the operator is at work; what goes wrong with that is told as such.
const OF_THE_OPERATOR: [Reason; 2] = [Reason::ApplyingChanges, Reason::Orchestrating];

/// One Event to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub warning: bool,
    pub reason: String,
    pub message: String,
    /// Since when what it replaces was true: the same change told twice has the same text here.
    pub replaces: String,
}

pub fn notices(before: &[Condition], after: &[Condition]) -> Vec<Notice> {
    let told = |type_| notice(type_, find(before, type_), find(after, type_)?);
    let degraded = told(ConditionType::Degraded);
    // What is wrong is told once, by whatever says more.
    let ready = told(ConditionType::Ready).filter(|ready| !degraded.as_ref().is_some_and(|it| covers(it, ready)));
    [degraded, told(ConditionType::RestartRequired), ready].into_iter().flatten().collect()
}

fn covers(degraded: &Notice, ready: &Notice) -> bool {
    degraded.warning && ready.warning && degraded.reason == ready.reason
}

fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

fn notice(type_: ConditionType, before: Option<&Condition>, after: &Condition) -> Option<Notice> {
    let is_true = after.status == "True";
    let was_true = before.is_some_and(|condition| condition.status == "True");
    let other_reason = before.is_some_and(|condition| condition.reason != after.reason);
    let fell = type_ == ConditionType::Ready && before.is_some_and(|before| is_a_fall(before, after));
    let worth = match type_ {
        ConditionType::Degraded => is_true != was_true || (is_true && other_reason),
        _ => is_true && !was_true || fell,
    };
    worth.then(|| Notice {
        warning: fell || is_true && type_ == ConditionType::Degraded,
        reason: if is_true || fell { after.reason.clone() } else { Reason::AsExpected.to_string() },
        message: after.message.clone(),
        replaces: before
            .map_or_else(String::new, |condition| format!("{} {}", condition.reason, condition.last_transition_time.0)),
    })
}

/// Ready ended, and nobody asked for it. A cluster that was never ready does not fall.
fn is_a_fall(before: &Condition, after: &Condition) -> bool {
    let ended = before.status == "True" && after.status != "True";
    let asked = before.observed_generation != after.observed_generation && is_one_of(&OF_A_CHANGE, after);
    ended && !asked && !is_one_of(&OF_THE_OPERATOR, after)
}

fn is_one_of(reasons: &[Reason], condition: &Condition) -> bool {
    reasons.iter().any(|reason| reason.as_str() == condition.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::conditions::{Finding, advance};
    use k8s_openapi::jiff::Timestamp;

    struct At(i64, bool, Reason);

    /// The Events between two states of Ready, as warnings and reasons.
    fn told(before: Option<At>, after: At) -> Vec<(bool, String)> {
        let ready = |At(generation, status, reason): At| {
            let finding =
                Finding { condition: ConditionType::Ready, status: Some(status), reason, message: String::new() };
            advance(&[], &[finding], Some(generation), Timestamp::UNIX_EPOCH)
        };
        let before = before.map(ready).unwrap_or_default();
        notices(&before, &ready(after)).into_iter().map(|notice| (notice.warning, notice.reason)).collect()
    }

    fn ready() -> Option<At> {
        Some(At(1, true, Reason::AllPodsReady))
    }

    #[test]
    fn the_end_of_ready_is_a_warning_and_its_return_is_told_each_once() {
        assert_eq!(told(ready(), At(1, false, Reason::PodsNotReady)), [(true, "PodsNotReady".to_owned())]);
        assert_eq!(told(Some(At(1, false, Reason::PodsNotReady)), At(1, false, Reason::ReplicasSyncing)), []);
        let back = told(Some(At(1, false, Reason::ReplicasSyncing)), At(1, true, Reason::AllPodsReady));
        assert_eq!(back, [(false, "AllPodsReady".to_owned())]);
        assert_eq!(told(ready(), At(1, true, Reason::AllPodsReady)), []);
    }

    #[test]
    fn a_new_cluster_and_what_somebody_asked_for_are_no_warnings() {
        assert_eq!(told(None, At(1, false, Reason::PodsStarting)), [], "it forms");
        assert_eq!(told(ready(), At(2, false, Reason::PodsStarting)), [], "the spec asks for more pods");
        assert_eq!(told(ready(), At(1, false, Reason::ApplyingChanges)), [], "the operator is at work");
        let dies = told(ready(), At(2, false, Reason::PrimaryDown));
        assert_eq!(dies, [(true, "PrimaryDown".to_owned())], "nobody asks for that");
    }

    #[test]
    fn one_trouble_is_one_warning() {
        let of = |reason, is_ready| {
            let finding =
                |condition, status| Finding { condition, status: Some(status), reason, message: String::new() };
            let findings = [finding(ConditionType::Ready, is_ready), finding(ConditionType::Degraded, !is_ready)];
            advance(&[], &findings, Some(1), Timestamp::UNIX_EPOCH)
        };
        let told = notices(&of(Reason::AsExpected, true), &of(Reason::ValkeyCrashLooping, false));
        assert_eq!(
            told.iter().map(|notice| (notice.warning, &*notice.reason)).collect::<Vec<_>>(),
            [(true, "ValkeyCrashLooping")]
        );
    }
}
