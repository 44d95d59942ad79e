//! The fields: two values for each, and what must be seen in a running pod with the first, the second and none. Pure.

use e2e::cluster::IMAGE;
use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Set,
    Changed,
    Unset,
}

pub struct Field {
    pub name: &'static str,
    pub set: Value,
    pub changed: Value,
    /// Its name in the condition RestartRequired; None when it takes effect on running pods.
    pub restart: Option<&'static str>,
    pub proofs: Vec<Proof>,
}

/// What is seen when the field is set, changed and unset.
pub enum Proof {
    /// `CONFIG GET` of a parameter.
    Parameter(&'static str, [&'static str; 3]),
    /// A place in the pod; null means that nothing is there.
    Pod(&'static str, Value),
    ReadService(Value),
    /// An annotation of an object: its kind and name, and the values.
    Annotation([&'static str; 2], &'static str, Value),
}

impl Proof {
    pub fn parameter(&self, stage: Stage) -> Option<(&'static str, &'static str)> {
        let Proof::Parameter(name, [set, changed, unset]) = self else { return None };
        Some(match stage {
            Stage::Set => (name, set),
            Stage::Changed => (name, changed),
            Stage::Unset => (name, unset),
        })
    }

    pub fn value(&self, stage: Stage) -> Option<Value> {
        let (Proof::Pod(_, values) | Proof::ReadService(values) | Proof::Annotation(_, _, values)) = self else {
            return None;
        };
        values.get(stage as usize).filter(|value| !value.is_null()).cloned()
    }
}

pub fn fields() -> Vec<Field> {
    [scheduling(), images_and_resources(), marks_and_counts(), persistence(), valkey()].into_iter().flatten().collect()
}

fn restarting(name: &'static str, [set, changed]: [Value; 2], proofs: Vec<Proof>) -> Field {
    Field { name, set, changed, restart: Some(name), proofs }
}

fn live(name: &'static str, [set, changed]: [Value; 2], proofs: Vec<Proof>) -> Field {
    Field { name, set, changed, restart: None, proofs }
}

fn scheduling() -> Vec<Field> {
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let node_term = json!({"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]});
    let node = |weight: u8| json!({preferred: [{"weight": weight, "preference": node_term}]});
    let selector = json!({"matchLabels": {"app.kubernetes.io/instance": "fields"}});
    let term = json!({"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"});
    let pod = |weight: u8| json!({preferred: [{"weight": weight, "podAffinityTerm": term}]});
    let spread = |skew: u8| json!([{"maxSkew": skew, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]);
    let toleration = |key: &str| json!([{"key": key, "operator": "Exists"}]);
    vec![
        restarting(
            "nodeAffinity",
            [node(10), node(20)],
            vec![Proof::Pod(
                "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/weight",
                json!([10, 20, null]),
            )],
        ),
        restarting(
            "podAffinity",
            [pod(11), pod(21)],
            vec![Proof::Pod(
                "/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/weight",
                json!([11, 21, null]),
            )],
        ),
        restarting(
            "podAntiAffinity",
            [pod(12), pod(22)],
            vec![Proof::Pod(
                "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/weight",
                json!([12, 22, 100]),
            )],
        ),
        restarting(
            "topologySpreadConstraints",
            [spread(3), spread(4)],
            vec![Proof::Pod("/spec/topologySpreadConstraints/0/maxSkew", json!([3, 4, 1]))],
        ),
        restarting(
            "tolerations",
            [toleration("one"), toleration("two")],
            vec![Proof::Pod(
                "/spec/tolerations/0/key",
                // What Kubernetes itself puts on every pod.
                json!(["one", "two", "node.kubernetes.io/not-ready"]),
            )],
        ),
        restarting(
            "priorityClassName",
            [json!("e2e-fields-low"), json!("e2e-fields-high")],
            vec![Proof::Pod("/spec/priorityClassName", json!(["e2e-fields-low", "e2e-fields-high", null]))],
        ),
        restarting(
            "runtimeClassName",
            [json!("e2e-fields-one"), json!("e2e-fields-two")],
            vec![Proof::Pod("/spec/runtimeClassName", json!(["e2e-fields-one", "e2e-fields-two", null]))],
        ),
    ]
}

fn images_and_resources() -> Vec<Field> {
    let memory = |limit: &str| json!({"requests": {"cpu": "5m", "memory": "16Mi"}, "limits": {"memory": limit}});
    let image = |tag: &str| json!({"name": IMAGE, "tag": tag, "imagePullSecrets": [{"name": "registry"}]});
    let sidecar = |limit: &str| json!({"limits": {"memory": limit}});
    let env = |zone: &str| json!([{"name": "TZ", "value": zone}, {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
    let exporter = |limit: &str| json!({"enabled": true, "resources": {"limits": {"memory": limit}}});
    vec![
        restarting(
            "resources",
            [memory("128Mi"), memory("256Mi")],
            vec![
                Proof::Pod("/spec/containers/0/resources/limits/memory", json!(["128Mi", "256Mi", null])),
                Proof::Parameter("maxmemory", ["67108864", "201326592", "0"]),
            ],
        ),
        restarting(
            "sidecarResources",
            [sidecar("48Mi"), sidecar("64Mi")],
            vec![Proof::Pod("/spec/initContainers/0/resources/limits/memory", json!(["48Mi", "64Mi", "32Mi"]))],
        ),
        restarting(
            "env",
            [env("UTC"), env("Europe/Berlin")],
            vec![
                Proof::Pod("/spec/containers/0/env/0/value", json!(["UTC", "Europe/Berlin", null])),
                Proof::Pod(
                    "/spec/containers/0/env/1/valueFrom/fieldRef/fieldPath",
                    json!(["spec.nodeName", "spec.nodeName", null]),
                ),
            ],
        ),
        restarting(
            "valkeyImage",
            [image("9.1"), image("8.1")],
            vec![
                Proof::Pod(
                    "/spec/containers/0/image",
                    json!([format!("{IMAGE}:9.1"), format!("{IMAGE}:8.1"), format!("{IMAGE}:9.1.2")]),
                ),
                Proof::Pod("/spec/imagePullSecrets/0/name", json!(["registry", "registry", null])),
            ],
        ),
        restarting(
            "exporter",
            [exporter("32Mi"), exporter("48Mi")],
            vec![
                Proof::Pod("/spec/containers/1/name", json!(["exporter", "exporter", null])),
                Proof::Pod("/spec/containers/1/resources/limits/memory", json!(["32Mi", "48Mi", null])),
            ],
        ),
    ]
}

fn marks_and_counts() -> Vec<Field> {
    vec![
        live(
            "labels",
            [json!({"team": "red"}), json!({"team": "blue"})],
            vec![Proof::Pod("/metadata/labels/team", json!(["red", "blue", null]))],
        ),
        live(
            "annotations",
            [json!({"contact": "red"}), json!({"contact": "blue"})],
            vec![Proof::Pod("/metadata/annotations/contact", json!(["red", "blue", null]))],
        ),
        // Other numbers are for the orchestrations; here every pod that these ask for is asked what it runs with.
        live("masterCount", [json!(3), json!(3)], Vec::new()),
        live("replicasPerMaster", [json!(1), json!(1)], Vec::new()),
        live(
            "readService",
            [json!({"enabled": true}), json!({"enabled": false})],
            vec![Proof::ReadService(json!([true, false, false]))],
        ),
        annotated("service", ["service", "fields"]),
        annotated("serviceAccount", ["serviceaccount", "fields-valkey"]),
    ]
}

fn annotated(field: &'static str, object: [&'static str; 2]) -> Field {
    let annotations = |value: &str| json!({"annotations": {"e2e.example/note": value}});
    let proof = Proof::Annotation(object, "e2e.example/note", json!(["red", "blue", null]));
    live(field, [annotations("red"), annotations("blue")], vec![proof])
}

fn persistence() -> Vec<Field> {
    let log = |enabled: bool, fsync: &str, percentage: u8, size: &str| json!({"enabled": enabled, "appendfsync": fsync, "autoAofRewritePercentage": percentage, "autoAofRewriteMinSize": size});
    let set = json!({"database": {"enabled": true, "save": "100 1"}, "aof": log(true, "always", 50, "32mb")});
    let changed = json!({"database": {"enabled": false, "save": "200 2"}, "aof": log(false, "no", 60, "48mb")});
    vec![live(
        "backup",
        [set, changed],
        vec![
            Proof::Parameter("save", ["100 1", "", "3600 1 300 100 60 10000"]),
            Proof::Parameter("appendonly", ["yes", "no", "no"]),
            Proof::Parameter("appendfsync", ["always", "no", "everysec"]),
            Proof::Parameter("auto-aof-rewrite-percentage", ["50", "60", "100"]),
            Proof::Parameter("auto-aof-rewrite-min-size", ["33554432", "50331648", "67108864"]),
        ],
    )]
}

fn valkey() -> Vec<Field> {
    let replication = |diskless: bool, least: u8, lag: u8| json!({"disklessSync": diskless, "minReplicasToWrite": least, "minReplicasMaxLag": lag});
    let config = |policy: &str, backlog: &str| json!({"maxmemory-policy": policy, "tcp-backlog": backlog});
    vec![
        live(
            "replication",
            [replication(true, 1, 20), replication(false, 0, 30)],
            vec![
                Proof::Parameter("repl-diskless-sync", ["yes", "no", "no"]),
                Proof::Parameter("min-replicas-to-write", ["1", "0", "0"]),
                Proof::Parameter("min-replicas-max-lag", ["20", "30", "10"]),
            ],
        ),
        Field {
            name: "config",
            set: config("allkeys-lru", "100"),
            changed: config("allkeys-lfu", "200"),
            restart: Some("config.tcp-backlog"),
            proofs: vec![
                Proof::Parameter("maxmemory-policy", ["allkeys-lru", "allkeys-lfu", "noeviction"]),
                Proof::Parameter("tcp-backlog", ["100", "200", "511"]),
            ],
        },
    ]
}
