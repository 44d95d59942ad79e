//! The rules of `spec.config`, made from the parameter table. Pure; used by the schema of the spec.

use super::rules::{at, explained, literals, rule};
use crate::parameters::{self, GROUPS, Group, LONGEST_NAME, Parameter};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// Bounds that keep the API server's cost estimate of the rules low; far above what a configuration needs.
const MOST_PARAMETERS: usize = 100;
const LONGEST_VALUE: usize = 512;
/// As `text::is_plain`, but for the tab, which is a blank to Valkey.
const NOT_PRINTED: &str =
    r"[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\\x{2028}-\\x{202e}\\x{2066}-\\x{2069}\\x{fffe}\\x{ffff}]";

pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MOST_PARAMETERS,
        "additionalProperties": { "type": "string", "maxLength": LONGEST_VALUE },
        "x-kubernetes-validations": config(),
    })
}

fn config() -> Value {
    let mut rules: Vec<Value> = GROUPS.iter().map(owned).collect();
    rules.push(alias());
    rules.push(rule(
        &format!("self.all(k, k.size() <= {LONGEST_NAME} && k.matches('^[a-z0-9._-]+$'))"),
        "config holds what is no name of a parameter: write it in small letters, with digits, '-', '_' and '.'",
    ));
    rules.push(rule(
        &format!("self.all(k, !self[k].matches('{NOT_PRINTED}'))"),
        "config holds a value with a line break or another character that is not printed: give each parameter its own key and \
         write the value in one line",
    ));
    Value::Array(rules)
}

fn owned(group: &Group) -> Value {
    // Names that a prefix covers need no second comparison.
    let names = group.names.iter().copied().filter(|name| !group.covers(name));
    let held = condition(names, std::slice::from_ref(group));
    let ending = format!("cannot be set in spec.config: {}", group.reason);
    explained(
        &format!("!self.exists(k, {held})"),
        &format!("a parameter that {ending}"),
        &format!("'%s {}'.format([self.filter(k, {held})])", ending.replace('\'', "\\'")),
    )
}

/// That the key `k` is one of the names or begins with one of the groups' prefixes.
fn condition<'a>(names: impl IntoIterator<Item = &'a str>, groups: &[Group]) -> String {
    let mut names = names.into_iter().peekable();
    let list = names.peek().is_some().then(|| format!("k in {}", literals(names)));
    let begins = groups.iter().flat_map(|group| group.prefixes.iter().map(|prefix| begins(prefix, group)));
    list.into_iter().chain(begins).collect::<Vec<_>>().join(" || ")
}

fn begins(prefix: &str, group: &Group) -> String {
    let mut free = group.free.iter().copied().filter(|name| name.starts_with(prefix)).peekable();
    match free.peek() {
        None => format!("k.startsWith('{prefix}')"),
        Some(_) => format!("(k.startsWith('{prefix}') && !(k in {}))", literals(free)),
    }
}

fn alias() -> Value {
    let free = parameters::all().iter().filter(|parameter| !GROUPS.iter().any(|group| group.holds(parameter.name)));
    let pairs: Vec<(&str, &str)> = free.filter_map(|parameter| Some((parameter.name, parameter.alias_of?))).collect();
    let entries: Vec<String> = pairs.iter().map(|(name, other)| format!("'{name}': '{other}'")).collect();
    let map = format!("{{{}}}", entries.join(", "));
    explained(
        &format!("!self.exists(k, k in {map})"),
        "config holds an old spelling of a parameter: use the current one",
        &format!("self.filter(k, k in {map}).map(k, k + ' is another spelling: use ' + {map}[k])[0]"),
    )
}

/// What the image holds, as far as the object says.
const VERSION: &str = "(has(self.valkeyImage.version) ? self.valkeyImage.version : has(self.valkeyImage.tag) ? self.valkeyImage.tag : '')";

/// Rules of the whole spec: a parameter that the chosen version does not have would keep Valkey from starting. With a version from
/// elsewhere the operator says so.
pub fn version_rules() -> Vec<Value> {
    let not_in_8 = names_where(|parameter| parameter.in_8_1.is_none());
    let not_in_9 = names_where(|parameter| parameter.in_9_1.is_none());
    vec![
        missing(&format!("{VERSION}.matches('^v?(8[.]|9[.]0([^0-9]|$))')"), &not_in_8, "Valkey 8.1 and 9.0 do"),
        missing(&format!("{VERSION}.matches('^v?(9|[1-9][0-9])[.]')"), &not_in_9, "Valkey 9 does"),
    ]
}

fn names_where(missing: impl Fn(&Parameter) -> bool) -> Vec<&'static str> {
    let free = parameters::all().iter().filter(|parameter| parameters::refusal(parameter.name).is_none());
    free.filter(|parameter| missing(parameter)).map(|parameter| parameter.name).collect()
}

fn missing(applies: &str, names: &[&str], who: &str) -> Value {
    let list = literals(names.iter().copied());
    at(
        ".config",
        rule(
            &format!(
                "!has(self.valkeyImage) || !has(self.config) || !({applies}) || \
                 !self.config.exists(k, k in {list})"
            ),
            &format!("config: {who} not have {}: leave it out or choose another valkeyImage.tag", names.join(", ")),
        ),
    )
}
