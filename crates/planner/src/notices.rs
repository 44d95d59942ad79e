//! The Events that a change of conditions is worth. Pure; a state that lasts is told once, when it begins.

use api::conditions::{ConditionType, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

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
    [ConditionType::Degraded, ConditionType::RestartRequired, ConditionType::Ready]
        .into_iter()
        .filter_map(|type_| notice(type_, find(before, type_), find(after, type_)?))
        .collect()
}

fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

fn notice(type_: ConditionType, before: Option<&Condition>, after: &Condition) -> Option<Notice> {
    let is_true = after.status == "True";
    let was_true = before.is_some_and(|condition| condition.status == "True");
    let other_reason = before.is_some_and(|condition| condition.reason != after.reason);
    let worth = match type_ {
        ConditionType::Degraded => is_true != was_true || (is_true && other_reason),
        _ => is_true && !was_true,
    };
    worth.then(|| Notice {
        warning: is_true && type_ == ConditionType::Degraded,
        reason: if is_true { after.reason.clone() } else { Reason::AsExpected.to_string() },
        message: after.message.clone(),
        replaces: before
            .map_or_else(String::new, |condition| format!("{} {}", condition.reason, condition.last_transition_time.0)),
    })
}
