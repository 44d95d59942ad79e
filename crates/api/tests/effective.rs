//! How the layers of a spec become one: by a table of all fields, and for any layers at all.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test that cannot go on fails

use api::cluster::effective::{Effective, Layers, Origin, resolve};
use api::cluster::{OF_CLUSTER, ValkeyClusterSpec};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// From the lowest to the highest.
const LAYERS: [Origin; 4] = [Origin::Running, Origin::OperatorNamespace, Origin::ClusterNamespace, Origin::Object];

/// A field that is taken whole, or one key of a map.
struct Leaf {
    field: &'static str,
    key: Option<&'static str>,
    values: [Value; 2],
}

impl Leaf {
    fn pointer(&self) -> String {
        let key = self.key.map(|key| format!("/{}", key.replace('/', "~1"))).unwrap_or_default();
        format!("/{}{key}", self.field.replace('.', "/"))
    }

    fn path(&self) -> String {
        let key = self.key.map(|key| format!("[{key}]")).unwrap_or_default();
        format!("spec.{}{key}", self.field)
    }
}

fn leaves() -> Vec<Leaf> {
    let whole = |field, values| Leaf { field, key: None, values };
    let entry = |field, key, values| Leaf { field, key: Some(key), values };
    let flags = || [json!(true), json!(false)];
    let words = || [json!("one"), json!("two")];
    let secrets = || [json!([{"name": "one"}]), json!([])];
    let terms =
        |key: &str| [1, 2].map(|weight| json!({key: [{"weight": weight, "podAffinityTerm": {"topologyKey": "zone"}}]}));
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let node = [1, 2].map(|weight| json!({preferred: [{"weight": weight, "preference": {}}]}));
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    vec![
        whole("valkeyImage.name", words()),
        whole("valkeyImage.tag", [json!("8.1"), json!("9.1")]),
        whole("valkeyImage.version", [json!("8.1"), json!("9.1")]),
        whole("valkeyImage.imagePullSecrets", secrets()),
        whole("masterCount", [json!(4), json!(5)]),
        whole("replicasPerMaster", [json!(0), json!(2)]),
        whole("tls", words()),
        whole("acl", words()),
        whole("podAffinity", terms(preferred)),
        whole("podAntiAffinity", terms(preferred)),
        whole("nodeAffinity", node),
        whole("tolerations", [json!([{"key": "infra"}]), json!([])]),
        whole("topologySpreadConstraints", [spread, json!([])]),
        whole("priorityClassName", words()),
        whole("runtimeClassName", words()),
        whole("env", [json!([{"name": "TZ", "value": "UTC"}]), json!([])]),
        entry("resources.requests", "cpu", [json!("1"), json!("2")]),
        entry("resources.requests", "memory", [json!("1Gi"), json!("2Gi")]),
        entry("resources.limits", "memory", [json!("3Gi"), json!("4Gi")]),
        entry("labels", "team", words()),
        entry("labels", "team.example/stage", words()),
        entry("annotations", "note", words()),
        whole("securityContext.runAsUser", [json!(1), json!(2)]),
        whole("securityContext.runAsGroup", [json!(1), json!(2)]),
        whole("securityContext.fsGroup", [json!(1), json!(2)]),
        whole("pvc.storageSize", [json!("1Gi"), json!("2Gi")]),
        whole("pvc.storageClassName", words()),
        whole("backup.database.enabled", flags()),
        whole("backup.database.save", [json!("1 1"), json!("2 2")]),
        whole("backup.aof.enabled", flags()),
        whole("backup.aof.appendfsync", [json!("always"), json!("no")]),
        whole("backup.aof.autoAofRewritePercentage", [json!(0), json!(50)]),
        whole("backup.aof.autoAofRewriteMinSize", words()),
        whole("sidecarImage.name", words()),
        whole("sidecarImage.tag", words()),
        whole("sidecarImage.imagePullSecrets", secrets()),
        entry("sidecarResources.requests", "cpu", [json!("1"), json!("2")]),
        entry("sidecarResources.limits", "memory", [json!("64Mi"), json!("128Mi")]),
        whole("exporter.enabled", flags()),
        whole("exporter.image.name", words()),
        whole("exporter.image.tag", words()),
        whole("exporter.image.imagePullSecrets", secrets()),
        entry("exporter.resources.requests", "cpu", [json!("1"), json!("2")]),
        entry("exporter.resources.limits", "cpu", [json!("1"), json!("2")]),
        whole("exporter.serviceMonitor.enabled", flags()),
        whole("exporter.serviceMonitor.interval", [json!("1m"), json!("2m")]),
        entry("exporter.serviceMonitor.labels", "release", words()),
        entry("service.annotations", "note", words()),
        whole("readService.enabled", flags()),
        entry("readService.annotations", "note", words()),
        entry("serviceAccount.annotations", "note", words()),
        whole("networkPolicy.enabled", flags()),
        whole("networkPolicy.from", [json!([{"podSelector": {}}]), json!([])]),
        whole("networkPolicy.metricsFrom", [json!([{"podSelector": {}}]), json!([])]),
        whole("replication.disklessSync", flags()),
        whole("replication.minReplicasToWrite", [json!(0), json!(1)]),
        whole("replication.minReplicasMaxLag", [json!(1), json!(2)]),
        entry("config", "hz", [json!("10"), json!("20")]),
        entry("config", "maxmemory-policy", [json!("noeviction"), json!("allkeys-lru")]),
        whole("modules", [json!([{"path": "/usr/lib/valkey/libjson.so"}]), json!([])]),
        whole("operatorMtls.clientCertValidity", [json!("1h"), json!("2h")]),
        whole("operatorMtls.rotateBeforePercent", [json!(70), json!(80)]),
        whole("paused", flags()),
    ]
}

/// A layer with the chosen value of each leaf, or none.
fn layer(choices: &[Option<bool>]) -> Value {
    let mut spec = json!({});
    for (leaf, choice) in leaves().iter().zip(choices) {
        let Some(second) = choice else { continue };
        set(&mut spec, leaf, leaf.values[usize::from(*second)].clone());
    }
    // The schema wants an image whole.
    if ["name", "tag"].iter().any(|part| spec.pointer(&format!("/sidecarImage/{part}")).is_none()) {
        spec.as_object_mut().unwrap().remove("sidecarImage");
    }
    spec
}

fn set(spec: &mut Value, leaf: &Leaf, value: Value) {
    let place = leaf.field.split('.').chain(leaf.key).fold(spec, |place, part| &mut place[part]);
    *place = value;
}

fn read(spec: &Value) -> ValkeyClusterSpec {
    serde_json::from_value(spec.clone()).unwrap()
}

/// The layers in the order of [`LAYERS`].
fn resolved(layers: &[Value]) -> Effective {
    let [running, operator_namespace, cluster_namespace, object] = layers else { panic!("four layers") };
    resolve(Layers {
        running: Some(&read(running)),
        operator_namespace: Some(&read(operator_namespace)),
        cluster_namespace: Some(&read(cluster_namespace)),
        object: &read(object),
    })
}

fn built_in() -> Effective {
    resolve(Layers::of(&ValkeyClusterSpec::default()))
}

#[test]
fn every_field_comes_from_the_highest_layer_that_has_it() {
    for leaf in leaves().iter().filter(|leaf| !leaf.field.starts_with("sidecarImage")) {
        let [low, high] = &leaf.values;
        for lower in 0..LAYERS.len() {
            for higher in lower + 1..LAYERS.len() {
                let mut layers = vec![json!({}); LAYERS.len()];
                set(&mut layers[lower], leaf, low.clone());
                set(&mut layers[higher], leaf, high.clone());
                let effective = resolved(&layers);
                let spec = serde_json::to_value(&effective.spec).unwrap();
                assert_eq!(spec.pointer(&leaf.pointer()), Some(high), "{}", leaf.path());
                assert_eq!(effective.origins.get(&leaf.path()), Some(&LAYERS[higher]), "{}", leaf.path());
            }
        }
    }
}

#[test]
fn a_default_that_depends_on_another_field_follows_it() {
    let least = |replicas: i32| {
        let spec = read(&json!({"replicasPerMaster": replicas}));
        resolve(Layers::of(&spec)).spec.replication.min_replicas_to_write
    };
    assert_eq!([0, 1, 2, 5].map(least), [0, 0, 1, 1]);
}

#[test]
fn the_bundle_loads_what_its_own_entry_point_does_unless_the_spec_says_otherwise() {
    let paths = |spec: Value| {
        let effective = resolve(Layers::of(&read(&spec)));
        let paths: Vec<String> = effective.spec.modules.into_iter().map(|module| module.path).collect();
        (paths.len(), paths.first().cloned(), effective.origins.get("spec.modules").copied())
    };
    let bundle = json!({"name": "registry.example:5000/valkey/valkey-bundle"});
    let json = Some("/usr/lib/valkey/libjson.so".to_owned());
    assert_eq!(paths(json!({"valkeyImage": bundle})), (4, json, Some(Origin::BuiltIn)));
    assert_eq!(paths(json!({"valkeyImage": bundle, "modules": []})), (0, None, Some(Origin::Object)));
    assert_eq!(paths(json!({})), (0, None, None));
}

#[test]
fn an_empty_security_context_leaves_the_ids_to_the_platform_and_a_given_id_does_not() {
    let ids = |layers: [&Value; 2]| {
        let [namespace, object] = layers.map(read);
        let layers = Layers { cluster_namespace: Some(&namespace), ..Layers::of(&object) };
        let context = resolve(layers).spec.security_context;
        [context.run_as_user, context.run_as_group, context.fs_group]
    };
    let (none, empty, some) = (json!({}), json!({"securityContext": {}}), json!({"securityContext": {"fsGroup": 5}}));
    let nulls = json!({"securityContext": {"runAsUser": null, "runAsGroup": null, "fsGroup": null}});
    let built_in = [Some(999); 3];
    for (layers, expected) in [
        ([&none, &none], built_in),
        ([&none, &empty], [None; 3]),
        ([&none, &nulls], [None; 3]),
        ([&empty, &none], [None; 3]),
        ([&some, &empty], [None; 3]),
        ([&empty, &some], [Some(999), Some(999), Some(5)]),
        ([&some, &none], [Some(999), Some(999), Some(5)]),
    ] {
        assert_eq!(ids(layers), expected, "{layers:?}");
    }
}

#[test]
fn null_is_the_same_as_absent() {
    let nulls: BTreeMap<&str, Value> =
        leaves().iter().filter_map(|leaf| Some((leaf.field.split('.').next()?, Value::Null))).collect();
    assert_eq!(resolve(Layers::of(&read(&json!(nulls)))), built_in());
    let inner =
        json!({"valkeyImage": {"tag": null}, "backup": {"aof": null}, "exporter": {"resources": {"limits": null}}});
    assert_eq!(resolve(Layers::of(&read(&inner))), built_in());
}

proptest! {
    #[test]
    fn the_highest_layer_wins_and_is_named(choices in prop::collection::vec(any_layer(), LAYERS.len())) {
        let layers: Vec<Value> = choices.iter().map(|choices| layer(choices)).collect();
        let effective = resolved(&layers);
        let spec = serde_json::to_value(&effective.spec).unwrap();
        let built_in = built_in();
        let built_in_spec = serde_json::to_value(&built_in.spec).unwrap();
        let mut named = BTreeSet::new();
        let writes_a_tag = layers.iter().skip(1).any(|layer| layer.pointer("/valkeyImage/tag").is_some());
        for leaf in leaves() {
            let pointer = leaf.pointer();
            // What runs is kept of an image as a whole, or not at all: whoever writes a tag means another one.
            let lowest = usize::from(leaf.field.starts_with("valkeyImage.") && writes_a_tag);
            let heard = LAYERS.iter().zip(&layers).skip(lowest).rev();
            let highest = heard.into_iter().find_map(|(origin, layer)| Some((*origin, layer.pointer(&pointer)?)));
            let origin = effective.origins.get(&leaf.path()).copied();
            named.insert(leaf.path());
            match highest {
                Some((layer, value)) => {
                    prop_assert_eq!(spec.pointer(&pointer), Some(value), "{}", leaf.path());
                    prop_assert_eq!(origin, Some(layer), "{}", leaf.path());
                }
                None => {
                    prop_assert_eq!(origin, built_in.origins.get(&leaf.path()).copied(), "{}", leaf.path());
                    // Its default depends on another field.
                    if origin.is_some() && leaf.field != "replication.minReplicasToWrite" {
                        prop_assert_eq!(spec.pointer(&pointer), built_in_spec.pointer(&pointer), "{}", leaf.path());
                    }
                }
            }
        }
        prop_assert!(effective.origins.keys().all(|path| named.contains(path)), "{:?}", effective.origins);
    }

    #[test]
    fn a_layer_that_says_nothing_changes_nothing(choices in prop::collection::vec(any_layer(), LAYERS.len()), silent in 0..3_usize) {
        let mut layers: Vec<Value> = choices.iter().map(|choices| layer(choices)).collect();
        layers[silent] = json!({});
        let specs: Vec<ValkeyClusterSpec> = layers.iter().map(read).collect();
        let given = |index: usize| (index != silent).then(|| &specs[index]);
        let without = resolve(Layers {
            running: given(0), operator_namespace: given(1), cluster_namespace: given(2), object: &specs[3],
        });
        prop_assert_eq!(resolved(&layers), without);
    }
}

fn any_layer() -> impl Strategy<Value = Vec<Option<bool>>> {
    prop::collection::vec(prop::option::weighted(0.3, any::<bool>()), leaves().len())
}

/// Without the fields that are declared only to be refused.
fn schema() -> Value {
    let definition = serde_json::to_value(api::definition::valkey_cluster()).unwrap();
    let mut spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
    for field in OF_CLUSTER.iter().map(|field| field.path) {
        let (name, parents) = field.split_last().unwrap();
        let parent = parents.iter().fold(&mut spec, |place, part| &mut place["properties"][part]);
        parent["properties"].as_object_mut().unwrap().remove(*name).unwrap();
    }
    spec
}

/// Every field of the schema that is not put together from others, with its description.
fn described(path: &str, schema: &Value, found: &mut BTreeMap<String, String>) {
    let whole = path.ends_with("ffinity");
    let Some(properties) = schema["properties"].as_object().filter(|_| !whole) else {
        found.insert(path.to_owned(), schema["description"].as_str().unwrap_or_default().to_owned());
        return;
    };
    for (name, child) in properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        described(&path, child, found);
    }
}

fn fields() -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    described("", &schema(), &mut fields);
    fields
}

#[test]
fn every_field_of_the_schema_is_in_the_table() {
    let known: BTreeSet<String> = leaves().iter().map(|leaf| leaf.field.to_owned()).collect();
    assert_eq!(fields().into_keys().collect::<BTreeSet<_>>(), known);
}

#[test]
fn only_master_count_has_a_default_in_the_schema_and_nothing_may_be_null() {
    let text = api::yaml::to_string(&schema()).unwrap();
    let defaults: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("default:")).collect();
    assert_eq!(defaults, ["default: 3"]);
    assert!(!text.contains("nullable") && !text.contains("- null"));
}

/// The built-in value as people write it; None where there is none.
fn default_of(field: &str) -> Option<String> {
    let built_in = built_in();
    built_in.origins.get(&format!("spec.{field}"))?;
    let spec = serde_json::to_value(&built_in.spec).unwrap();
    let value = spec.pointer(&format!("/{}", field.replace('.', "/")))?.clone();
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

#[test]
fn kubectl_explain_names_the_built_in_default() {
    for (field, description) in fields() {
        let Some(default) = default_of(&field).filter(|_| field != "replication.minReplicasToWrite") else { continue };
        assert!(description.contains(&format!("Default: {default}.")), "{field}, {default}: {description}");
    }
}

#[test]
fn the_documented_table_has_every_field_its_default_and_how_it_merges() {
    let document = include_str!("../../../docs/defaults.md");
    let maps: BTreeSet<&str> = leaves().iter().filter(|leaf| leaf.key.is_some()).map(|leaf| leaf.field).collect();
    let row = |field: String| {
        let default = default_of(&field).map(|default| format!("`{default}`")).unwrap_or_default();
        let merge = if maps.contains(field.as_str()) { "by key" } else { "" };
        format!("| `{field}` | {default} | {merge} |")
    };
    let expected: Vec<String> = fields().into_keys().map(row).collect();
    let written: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(written, expected, "docs/defaults.md should have:\n{}", expected.join("\n"));
}
