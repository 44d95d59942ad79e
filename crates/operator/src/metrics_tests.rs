use super::*;
use crate::cluster_metrics::DESCRIBED;
use api::conditions::ConditionType;
use std::sync::Mutex;

const DOCUMENT: &str = include_str!("../../../docs/metrics.md");
const ALERTS: &str = include_str!("../../../charts/valkey-operator/alerts.yaml");

#[test]
fn the_age_of_the_oldest_heartbeat_is_that_of_the_moment_one_looks() {
    let (metrics, seconds) = (Metrics::new(), std::sync::atomic::AtomicU8::new(7));
    let shown = |metrics: &Metrics, value: &str| {
        metrics.print().contains(&format!("valkey_operator_oldest_heartbeat_seconds {value}\n"))
    };
    assert!(shown(&metrics, "0.0"), "{}", metrics.print());
    metrics.watch_silence(move || seconds.fetch_add(1, std::sync::atomic::Ordering::Relaxed).into());
    assert!(shown(&metrics, "7.0") && shown(&metrics, "8.0"), "{}", metrics.print());
}

#[test]
fn writes_are_counted_by_verb_and_kind() {
    let metrics = Metrics::new();
    metrics.write("apply", "Service");
    metrics.write("apply", "Service");
    let page = metrics.print();
    assert!(page.contains("valkey_operator_writes_total{verb=\"apply\",kind=\"Service\"} 2"), "{page}");
}

fn cluster(namespace: &str, name: &str) -> ClusterFacts {
    ClusterFacts {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        conditions: vec![(ConditionType::Ready, "True".to_owned()), (ConditionType::Degraded, "Unknown".to_owned())],
        pods_wanted: 6,
        pods_ready: 5,
        orchestration: Some(("Heal".to_owned(), 1_700_000_000)),
        queued: 1,
        certificates: vec![("leaf", 1_800_000_000)],
    }
}

/// The lines of the clusters.
fn of_clusters(metrics: &Metrics) -> Vec<String> {
    let page = metrics.print();
    page.lines().filter(|line| line.starts_with("valkey_operator_cluster_")).map(str::to_owned).collect()
}

#[test]
fn a_cluster_is_told_of_in_a_fixed_number_of_series() {
    let metrics = Metrics::new();
    metrics.leader.set(1);
    metrics.watch_clusters(|| vec![cluster("team-a", "orders")]);
    let labels = r#"namespace="team-a",name="orders""#;
    let expected = [
        format!(r#"valkey_operator_cluster_condition{{{labels},type="Ready",status="True"}} 1"#),
        format!(r#"valkey_operator_cluster_condition{{{labels},type="Ready",status="False"}} 0"#),
        format!(r#"valkey_operator_cluster_condition{{{labels},type="Ready",status="Unknown"}} 0"#),
        format!(r#"valkey_operator_cluster_condition{{{labels},type="Degraded",status="True"}} 0"#),
        format!(r#"valkey_operator_cluster_condition{{{labels},type="Degraded",status="False"}} 0"#),
        format!(r#"valkey_operator_cluster_condition{{{labels},type="Degraded",status="Unknown"}} 1"#),
        format!("valkey_operator_cluster_pods_desired{{{labels}}} 6"),
        format!("valkey_operator_cluster_pods_ready{{{labels}}} 5"),
        format!("valkey_operator_cluster_orchestrating{{{labels}}} 1"),
        format!(r#"valkey_operator_cluster_orchestration_start_timestamp_seconds{{{labels},kind="Heal"}} 1700000000"#),
        format!("valkey_operator_cluster_orchestrations_queued{{{labels}}} 1"),
        format!(
            r#"valkey_operator_cluster_certificate_expiration_timestamp_seconds{{{labels},certificate="leaf"}} 1800000000"#
        ),
    ];
    assert_eq!(of_clusters(&metrics), expected);
}

#[test]
fn series_end_with_their_cluster_and_only_the_leader_has_any() {
    let (metrics, clusters) = (Metrics::new(), Arc::new(Mutex::new(vec![cluster("b", "two"), cluster("a", "one")])));
    let source = clusters.clone();
    metrics.watch_clusters(move || source.lock().unwrap().clone());
    assert_eq!(of_clusters(&metrics), [""; 0]);
    metrics.leader.set(1);
    let names = |metrics: &Metrics| {
        let mut names: Vec<String> =
            of_clusters(metrics).iter().filter_map(|line| Some(line.split('"').nth(3)?.to_owned())).collect();
        names.dedup();
        names.truncate(2);
        names
    };
    assert_eq!(names(&metrics), ["one", "two"]);
    clusters.lock().unwrap().pop();
    assert_eq!(names(&metrics), ["two"]);
    metrics.leader.set(0);
    assert_eq!(names(&metrics), [""; 0]);
}

#[test]
fn which_version_this_is_is_told() {
    let expected = format!("valkey_operator_build_info{{version=\"{}\"}} 1\n", env!("CARGO_PKG_VERSION"));
    assert!(Metrics::new().print().contains(&expected), "{}", Metrics::new().print());
}

/// A page on which every instrument has something to show.
fn full_page() -> String {
    let metrics = Metrics::new();
    metrics.leader.set(1);
    metrics.watch_clusters(|| vec![cluster("team-a", "orders")]);
    metrics.certificate_ends("root", jiff::Timestamp::UNIX_EPOCH);
    metrics.reconciled("done", 0.1);
    metrics.write("apply", "Service");
    metrics.watch_errors.get_or_create(&Watched { kind: "Pod" }).inc();
    metrics.clusters.get_or_create(&Scoped { namespace: String::new() }).set(1);
    metrics.line_refusals.get_or_create(&Refused { reason: "busy" }).inc();
    metrics.token_reviews.get_or_create(&Outcome { outcome: "good" }).inc();
    metrics.print()
}

/// The rows of a table: name, type, labels, and what it says.
fn rows(page: &str) -> Vec<String> {
    let kinds = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let row = |(name, kind): (&str, &str)| {
        let full = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        let help = page.lines().find_map(|line| line.strip_prefix(&format!("# HELP {name} "))).unwrap_or_default();
        let sample = page.lines().find(|line| line.starts_with(full.as_str())).unwrap_or_default();
        let labels: Vec<String> =
            sample.split('"').step_by(2).filter_map(label_before).map(|label| format!("`{label}`")).collect();
        format!("| `{full}` | {kind} | {} | {} |", labels.join(", "), help.trim_end_matches('.'))
    };
    kinds.map(row).collect()
}

/// The name of the label whose value follows, but for the bounds of histograms.
fn label_before(text: &str) -> Option<&str> {
    let label = text.strip_suffix('=')?.rsplit(['{', ',']).next()?;
    (label != "le").then_some(label)
}

#[test]
fn the_documented_table_has_every_metric() {
    let expected = rows(&full_page());
    let registered = include_str!("metrics.rs").matches("registry.register(").count() + DESCRIBED.len();
    assert_eq!(expected.len(), registered, "full_page() must give every instrument a value");
    let written: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("| `valkey_operator_")).collect();
    assert_eq!(written, expected, "docs/metrics.md should have:\n{}", expected.join("\n"));
}

/// Words of an alert's expression that look like a metric of ours, without what a histogram adds.
fn named(expression: &str) -> Vec<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("valkey_operator_"));
    ours.map(|word| ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word))
        .map(str::to_owned)
        .collect()
}

#[test]
fn alerts_name_metrics_that_exist_and_are_explained() {
    let rules: serde_json::Value = serde_yaml_ng::from_str(ALERTS).unwrap();
    let page = full_page();
    let known: Vec<String> = rows(&page).iter().filter_map(|row| Some(row.split('`').nth(1)?.to_owned())).collect();
    let alerts: Vec<&serde_json::Value> =
        rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(alerts.len() > 5);
    for alert in alerts {
        let (name, expression) = (alert["alert"].as_str().unwrap(), alert["expr"].as_str().unwrap());
        let metrics = named(expression);
        assert!(!metrics.is_empty() && metrics.iter().all(|metric| known.contains(metric)), "{name}: {metrics:?}");
        assert_eq!(expression.matches('(').count(), expression.matches(')').count(), "{name}");
        assert!(["summary", "description"].iter().all(|key| alert["annotations"][key].is_string()), "{name}");
        assert!(DOCUMENT.contains(&format!("| `{name}` |")), "docs/metrics.md does not explain {name}");
        for condition in expression.split("type=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(ConditionType::ALL.iter().any(|known| known.as_str() == condition), "{name}: {condition}");
        }
    }
}
