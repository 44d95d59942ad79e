//! The definitions against every released one: what was accepted still is, and means the same. There is one schema in all versions and
//! no conversion, so objects stored years ago are read with today's. What narrows all the same stands in `released/exceptions.yaml`.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::{fs, path::Path};

const RULES: &str = "x-kubernetes-validations";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    changes: Vec<String>,
    why: String,
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("released")
}

/// Version → its definitions by name.
pub fn released() -> BTreeMap<String, BTreeMap<String, Value>> {
    let folders = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let read = |path: std::path::PathBuf| {
        let definition: Value = serde_yaml_ng::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        (definition["metadata"]["name"].as_str().unwrap().to_owned(), definition)
    };
    let definitions = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap().path())).collect();
    folders.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), definitions(&path))).collect()
}

fn current() -> BTreeMap<String, Value> {
    let definitions = api::definition::all().into_iter().map(|definition| serde_json::to_value(definition).unwrap());
    definitions.map(|definition| (definition["metadata"]["name"].as_str().unwrap().to_owned(), definition)).collect()
}

#[test]
fn nothing_that_was_released_is_narrowed_without_a_reason() {
    let exceptions = fs::read_to_string(folder().join("exceptions.yaml")).unwrap();
    let exceptions: Vec<Exception> = serde_yaml_ng::from_str(&exceptions).unwrap();
    assert!(exceptions.iter().all(|exception| exception.why.len() > 20), "an exception without a reason");
    let (released, now) = (released(), current());
    let pairs = released.values().flatten();
    let found: BTreeSet<String> = pairs.flat_map(|(name, before)| narrowed(before, now.get(name))).collect();
    let known: BTreeSet<String> = exceptions.into_iter().flat_map(|exception| exception.changes).collect();
    let new: Vec<&String> = found.difference(&known).collect();
    assert!(new.is_empty(), "narrower than what was released, and not in released/exceptions.yaml: {new:#?}");
    let over: Vec<&String> = known.difference(&found).collect();
    assert!(over.is_empty(), "in released/exceptions.yaml, and not true: {over:#?}");
}

#[test]
fn the_revision_grows_with_the_schema() {
    let stripped = |definition: &Value| {
        let mut definition = definition.clone();
        words_apart(&mut definition["spec"]);
        definition["spec"].clone()
    };
    let (released, now) = (released(), current());
    let (_, newest) = released.last_key_value().unwrap();
    for (name, definition) in &now {
        let before = newest.get(name).unwrap_or(&Value::Null);
        let [then, today] = [before, definition].map(revision);
        let changed = stripped(before) != stripped(definition);
        assert!(
            today > then || !changed && today == then,
            "{name} changed: REVISION must be above {then}, it is {today}"
        );
    }
}

fn revision(definition: &Value) -> u64 {
    let written = definition["metadata"]["annotations"][api::names::annotation::SCHEMA_REVISION].as_str();
    // The first one did not say.
    written.map_or(1, |text| text.parse().unwrap())
}

fn words_apart(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "description" || !value.is_string());
            fields.values_mut().for_each(words_apart);
        }
        Value::Array(list) => list.iter_mut().for_each(words_apart),
        _ => {}
    }
}

/// What a definition refuses or loses that the one before took.
fn narrowed(before: &Value, now: Option<&Value>) -> Vec<String> {
    let names = &before["spec"]["names"];
    let mut found = Found { place: names["plural"].as_str().unwrap().to_owned(), list: Vec::new() };
    let Some(now) = now else {
        found.add("removed");
        return found.list;
    };
    for part in ["group", "scope"] {
        found.same(part, &before["spec"][part], &now["spec"][part]);
    }
    for part in ["kind", "plural", "singular"] {
        found.same(part, &names[part], &now["spec"]["names"][part]);
    }
    for list in ["shortNames", "categories"] {
        found.kept(list, &names[list], &now["spec"]["names"][list]);
    }
    for version in before["spec"]["versions"].as_array().unwrap() {
        let same = |other: &&Value| other["name"] == version["name"];
        let Some(other) = now["spec"]["versions"].as_array().unwrap().iter().find(same) else {
            found.add(&format!("version {} is gone", version["name"]));
            continue;
        };
        for part in ["served", "storage", "subresources"] {
            found.same(part, &version[part], &other[part]);
        }
        found.schema(&version["schema"]["openAPIV3Schema"], &other["schema"]["openAPIV3Schema"]);
    }
    found.list
}

/// Where the comparison is, and what it found.
struct Found {
    place: String,
    list: Vec<String>,
}

impl Found {
    fn add(&mut self, what: &str) {
        self.list.push(format!("{}: {what}", self.place));
    }

    fn same(&mut self, what: &str, before: &Value, now: &Value) {
        if before != now {
            self.add(&format!("{what} was {before}, is {now}"));
        }
    }

    fn kept(&mut self, what: &str, before: &Value, now: &Value) {
        let now = now.as_array().map_or(&[][..], Vec::as_slice);
        let gone = before.as_array().into_iter().flatten().filter(|one| !now.contains(one));
        gone.for_each(|one| self.add(&format!("{what}: {one} is gone")));
    }

    fn within(&mut self, name: &str, before: &Value, now: &Value) {
        let between = if self.place.contains(' ') { '.' } else { ' ' };
        let place = format!("{}{between}{name}", self.place);
        let outer = std::mem::replace(&mut self.place, place);
        self.schema(before, now);
        self.place = outer;
    }

    fn schema(&mut self, before: &Value, now: &Value) {
        let (Some(before), Some(now)) = (before.as_object(), now.as_object()) else { return self.add("removed") };
        let keywords: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        for keyword in keywords {
            let [was, is] = [before, now].map(|schema| schema.get(keyword).unwrap_or(&Value::Null));
            self.keyword(keyword, was, is);
        }
    }

    fn keyword(&mut self, keyword: &str, was: &Value, is: &Value) {
        match keyword {
            "description" | "title" => {}
            "properties" => self.properties(was, is),
            "items" | "additionalProperties" if was.is_object() && is.is_object() => self.within("[]", was, is),
            "required" => self.nothing_new(keyword, was, is),
            "enum" => self.words(was, is),
            RULES => self.rules(was, is),
            "x-kubernetes-list-type" => self.same(keyword, list_type(was), list_type(is)),
            // Another type of list says it already.
            "x-kubernetes-list-map-keys" if was.is_null() || is.is_null() => {}
            "maxLength" | "maxItems" | "maxProperties" | "maximum" => self.bound(keyword, was, is, |was, is| is < was),
            "minLength" | "minItems" | "minProperties" | "minimum" => self.bound(keyword, was, is, |was, is| is > was),
            // Less is said: more is taken. The API server drops nulls where none may be.
            "format" | "pattern" if is.is_null() => {}
            "nullable" if is == &json!(true) => {}
            _ => self.same(keyword, was, is),
        }
    }

    fn properties(&mut self, was: &Value, is: &Value) {
        for (name, before) in was.as_object().into_iter().flatten() {
            self.within(name, before, is.get(name).unwrap_or(&Value::Null));
        }
    }

    fn nothing_new(&mut self, keyword: &str, was: &Value, is: &Value) {
        let was = was.as_array().map_or(&[][..], Vec::as_slice);
        let new = is.as_array().into_iter().flatten().filter(|one| !was.contains(one));
        new.for_each(|one| self.add(&format!("{keyword}: {one} is new")));
    }

    /// Null is among them where a field may be null.
    fn words(&mut self, was: &Value, is: &Value) {
        match (was.is_null(), is.is_null()) {
            (_, true) => {}
            (true, false) => self.add(&format!("enum {is} is new")),
            (false, false) => self.kept("enum", was, is),
        }
    }

    fn bound(&mut self, keyword: &str, was: &Value, is: &Value, tighter: fn(f64, f64) -> bool) {
        let narrowed = match (was.as_f64(), is.as_f64()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(was), Some(is)) => tighter(was, is),
        };
        if narrowed {
            self.add(&format!("{keyword} was {was}, is {is}"));
        }
    }

    /// A rule is known by its expression, whatever its words. Its digest keeps one exception from covering the next change.
    fn rules(&mut self, was: &Value, is: &Value) {
        let key = |rule: &Value| (rule["rule"].clone(), rule["optionalOldSelf"].clone());
        let known: Vec<_> = was.as_array().into_iter().flatten().map(key).collect();
        for rule in is.as_array().into_iter().flatten().filter(|rule| !known.contains(&key(rule))) {
            let digest = api::text::digest(rule["rule"].as_str().unwrap_or_default().as_bytes(), 8);
            let message = rule["message"].as_str().unwrap_or_default();
            self.add(&format!("rule {digest} is new or changed: {message}"));
        }
    }
}

/// Who owns the entries; where nothing is said, whoever owns the list.
fn list_type(said: &Value) -> &Value {
    static ATOMIC: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| json!("atomic"));
    if said.is_null() { &ATOMIC } else { said }
}

fn definition(schema: &Value) -> Value {
    let names =
        json!({ "kind": "Thing", "plural": "things", "singular": "thing", "shortNames": ["t"], "categories": ["all"] });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    json!({ "spec": { "group": "g", "scope": "Namespaced", "names": names, "versions": [version] } })
}

fn small() -> Value {
    json!({ "type": "object", "required": ["a"], "properties": {
        "a": { "type": "string", "maxLength": 9, "minLength": 2, "pattern": "^a", "default": "ab" },
        "b": { "type": "integer", "maximum": 9, "minimum": 1, "format": "int64", RULES: [{ "rule": "self > 0", "message": "above 0" }] },
        "c": { "type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "items": { "type": "string", "enum": ["x", "y"] } },
        "d": { "type": "object", "maxProperties": 9, "additionalProperties": { "type": "string", "nullable": true } },
        "e": { "x-kubernetes-int-or-string": true },
    } })
}

/// Each change to a small definition, and what the comparison must say about it.
#[test]
fn every_way_of_narrowing_is_noticed() {
    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    let cases = [
        ("/properties/a", Value::Null, "things a: "),
        ("/properties/a/type", json!("integer"), "things a: type"),
        ("/properties/a/maxLength", json!(8), "things a: maxLength"),
        ("/properties/a/minLength", json!(3), "things a: minLength"),
        ("/properties/a/pattern", json!("^ab"), "things a: pattern"),
        ("/properties/a/default", json!("ac"), "things a: default"),
        ("/properties/a/default", Value::Null, "things a: default"),
        ("/properties/a/enum", json!(["ab"]), "things a: enum"),
        ("/properties/a/uniqueItems", json!(true), "things a: uniqueItems"),
        ("/properties/b/maximum", json!(8), "things b: maximum"),
        ("/properties/b/minimum", json!(2), "things b: minimum"),
        ("/properties/b/format", json!("int32"), "things b: format"),
        (
            "/properties/b/x-kubernetes-validations",
            json!([{ "rule": "self > 1", "message": "above 0" }]),
            "things b: rule",
        ),
        ("/properties/c/maxItems", json!(8), "things c: maxItems"),
        ("/properties/c/x-kubernetes-list-type", json!("set"), "things c: x-kubernetes-list-type"),
        ("/properties/c/items/enum", json!(["x"]), "things c.[]: enum"),
        ("/properties/c/items/type", json!("integer"), "things c.[]: type"),
        ("/properties/d/maxProperties", json!(8), "things d: maxProperties"),
        ("/properties/d/additionalProperties/nullable", Value::Null, "things d.[]: nullable"),
        ("/properties/d/additionalProperties", Value::Null, "things d: additionalProperties"),
        ("/properties/e/x-kubernetes-int-or-string", Value::Null, "things e: x-kubernetes-int-or-string"),
        ("/required", json!(["a", "b"]), "things: required"),
    ];
    let before = definition(&small());
    for (place, value, said) in cases {
        let found = narrowed(&before, Some(&changed(&before, &format!("{schema}{place}"), value)));
        assert!(matches!(found.as_slice(), [one] if one.starts_with(said)), "{place}: {found:?}");
    }
    for (place, value) in [
        ("/spec/names/kind", json!("Other")),
        ("/spec/names/categories", json!([])),
        ("/spec/names/shortNames", json!([])),
        ("/spec/scope", json!("Cluster")),
        ("/spec/versions/0/served", json!(false)),
        ("/spec/versions/0/name", json!("v2")),
    ] {
        assert_eq!(narrowed(&before, Some(&changed(&before, place, value))).len(), 1, "{place}");
    }
    assert_eq!(narrowed(&before, None), ["things: removed"]);
}

#[test]
fn what_takes_more_is_no_narrowing() {
    let before = definition(&small());
    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    for (place, value) in [
        ("/properties/new", json!({ "type": "string", "maxLength": 1, RULES: [{ "rule": "false" }] })),
        ("/properties/a/maxLength", json!(10)),
        ("/properties/a/maxLength", Value::Null),
        ("/properties/a/pattern", Value::Null),
        ("/properties/a/nullable", json!(true)),
        ("/properties/a/description", json!("words")),
        ("/properties/b/minimum", json!(0)),
        ("/properties/b/x-kubernetes-validations", json!([{ "rule": "self > 0", "message": "other words" }])),
        ("/properties/b/x-kubernetes-validations", Value::Null),
        ("/properties/c/items/enum", json!(["x", "y", "z"])),
        ("/properties/c/items/enum", Value::Null),
        ("/required", Value::Null),
    ] {
        let found = narrowed(&before, Some(&changed(&before, &format!("{schema}{place}"), value)));
        assert!(found.is_empty(), "{place}: {found:?}");
    }
}

fn changed(before: &Value, place: &str, value: Value) -> Value {
    let (parent, name) = place.rsplit_once('/').unwrap();
    let mut after = before.clone();
    let parent: &mut Map<String, Value> = after.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        drop(parent.remove(name))
    } else {
        drop(parent.insert(name.to_owned(), value))
    }
    after
}
