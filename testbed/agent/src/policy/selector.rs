//! Label selectors as the Kubernetes API defines them. Pure; called by `rules` and `peers`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

pub type Labels = BTreeMap<String, String>;

/// An empty selector matches everything.
pub fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    let wanted = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    wanted.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.into_iter().all(|expression| satisfies(expression, labels))
}

/// `NotIn` is also satisfied by a missing key. The API server admits no operator but these four.
fn satisfies(expression: &LabelSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&expression.key);
    let listed = || value.is_some_and(|value| expression.values.iter().flatten().any(|item| item == value));
    match expression.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches_labels(selector: serde_json::Value, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        matches(&serde_json::from_value(selector).unwrap(), &labels)
    }

    #[test]
    fn the_empty_selector_matches_everything() {
        assert!(matches_labels(json!({}), &[]) && matches_labels(json!({}), &[("a", "b")]));
    }

    #[test]
    fn all_requirements_must_hold() {
        let selector =
            json!({"matchLabels": {"app": "valkey"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]});
        assert!(matches_labels(selector.clone(), &[("app", "valkey"), ("tier", "x")]));
        assert!(!matches_labels(selector.clone(), &[("app", "valkey")]));
        assert!(!matches_labels(selector, &[("app", "other"), ("tier", "x")]));
    }

    #[test]
    fn operators_treat_a_missing_key_as_the_api_says() {
        let holds = |operator: &str, labels: &[(&str, &str)]| {
            let values = if operator.ends_with("In") { json!(["a", "b"]) } else { json!(null) };
            matches_labels(json!({"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}), labels)
        };
        let table = [
            ("In", true, false, false),
            ("NotIn", false, true, true),
            ("Exists", true, true, false),
            ("DoesNotExist", false, false, true),
        ];
        for (operator, listed, unlisted, missing) in table {
            assert_eq!(holds(operator, &[("k", "a")]), listed, "{operator} listed");
            assert_eq!(holds(operator, &[("k", "z")]), unlisted, "{operator} unlisted");
            assert_eq!(holds(operator, &[]), missing, "{operator} missing");
        }
    }
}
