//! Who did what to the API server, and how often. Pure: lines of the audit log in, filtered entries and counts out.
//! `audit_file` reads the lines; tests ask things like "how many writes did the operator make while idle".

use serde::Deserialize;
use std::{collections::BTreeMap, fmt};

const MUTATING_VERBS: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// One finished request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub user: String,
    pub user_agent: String,
    pub verb: String,
    pub group: String,
    /// `pods`, or `pods/status` for a subresource; empty for requests outside of resources.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub code: u16,
    pub uri: String,
    /// When the request arrived, as the server wrote it.
    pub at: String,
}

impl AuditEntry {
    /// Asked for a change. A dry run changes nothing and does not count.
    pub fn is_mutating(&self) -> bool {
        MUTATING_VERBS.contains(&self.verb.as_str()) && !self.uri.contains("dryRun=")
    }

    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

impl fmt::Display for AuditEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, verb, resource, namespace, name, code, at, .. } = self;
        write!(formatter, "{at} {user} {verb} {resource} {namespace}/{name} -> {code}")
    }
}

/// Finished requests of a text of JSON lines, in order. Other stages of a request would count it twice; a line that is no event is an error.
pub fn parse(text: &str) -> Result<Vec<AuditEntry>, serde_json::Error> {
    let events = text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str::<Event>);
    let finished = |event: &Event| event.stage == "ResponseComplete";
    events.filter(|event| event.as_ref().map_or(true, finished)).map(|event| event.map(AuditEntry::from)).collect()
}

/// Entries narrowed down step by step: `selection.by("…").mutating().in_namespace("…")`.
#[derive(Debug, Clone, Default)]
pub struct AuditSelection {
    pub entries: Vec<AuditEntry>,
}

impl AuditSelection {
    pub fn by(self, user: &str) -> Self {
        self.keep(|entry| entry.user == user)
    }

    pub fn by_agent(self, part: &str) -> Self {
        self.keep(|entry| entry.user_agent.contains(part))
    }

    pub fn verb(self, verb: &str) -> Self {
        self.keep(|entry| entry.verb == verb)
    }

    pub fn resource(self, resource: &str) -> Self {
        self.keep(|entry| entry.resource == resource)
    }

    pub fn in_namespace(self, namespace: &str) -> Self {
        self.keep(|entry| entry.namespace == namespace)
    }

    pub fn named(self, name: &str) -> Self {
        self.keep(|entry| entry.name == name)
    }

    pub fn mutating(self) -> Self {
        self.keep(AuditEntry::is_mutating)
    }

    pub fn succeeded(self) -> Self {
        self.keep(AuditEntry::succeeded)
    }

    pub fn keep(mut self, wanted: impl Fn(&AuditEntry) -> bool) -> Self {
        self.entries.retain(wanted);
        self
    }

    /// How often each user did each verb to each resource.
    pub fn counts(&self) -> BTreeMap<(String, String, String), usize> {
        let mut counts = BTreeMap::new();
        for entry in &self.entries {
            *counts.entry((entry.user.clone(), entry.verb.clone(), entry.resource.clone())).or_default() += 1;
        }
        counts
    }

    /// The counts as lines for an assertion's message, the most frequent first.
    pub fn summary(&self) -> String {
        let mut counts: Vec<_> = self.counts().into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts.iter().map(|((user, verb, resource), count)| format!("{count:6} {user} {verb} {resource}\n")).collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI", default)]
    request_uri: String,
    #[serde(default)]
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectReference,
    #[serde(default)]
    response_status: ResponseStatus,
    #[serde(default)]
    request_received_timestamp: String,
}

#[derive(Deserialize, Default)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectReference {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl From<Event> for AuditEntry {
    fn from(event: Event) -> Self {
        let ObjectReference { api_group, resource, subresource, namespace, name } = event.object_ref;
        let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
        Self {
            user: event.user.username,
            user_agent: event.user_agent,
            verb: event.verb,
            group: api_group,
            resource,
            namespace,
            name,
            code: event.response_status.code,
            uri: event.request_uri,
            at: event.request_received_timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(stage: &str, user: &str, verb: &str, resource: &str, uri: &str, code: u16) -> String {
        let event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "stage": stage, "verb": verb,
            "requestURI": uri, "user": {"username": user, "groups": ["system:masters"]}, "userAgent": "kubectl/v1.36",
            "objectRef": {"resource": resource, "namespace": "shop", "name": "web", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": code}, "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        });
        format!("{event}\n")
    }

    fn selection() -> AuditSelection {
        let text = [
            line("RequestReceived", "ann", "create", "configmaps", "/api/v1/namespaces/shop/configmaps", 0),
            line("ResponseComplete", "ann", "create", "configmaps", "/api/v1/namespaces/shop/configmaps", 201),
            line("ResponseComplete", "ann", "patch", "configmaps", "/api/v1/x?dryRun=All", 200),
            line("ResponseComplete", "ann", "delete", "configmaps", "/api/v1/x", 403),
            line("ResponseComplete", "bob", "get", "pods", "/api/v1/x", 200),
            line("ResponseComplete", "bob", "get", "pods", "/api/v1/x", 200),
        ]
        .concat();
        AuditSelection { entries: parse(&text).unwrap() }
    }

    #[test]
    fn a_request_counts_once_however_many_stages_were_logged() {
        assert_eq!(selection().by("ann").verb("create").entries.len(), 1);
    }

    #[test]
    fn a_dry_run_and_a_read_are_no_mutations() {
        let verbs: Vec<_> = selection().mutating().entries.into_iter().map(|entry| entry.verb).collect();
        assert_eq!(verbs, ["create", "delete"]);
    }

    #[test]
    fn a_refused_write_did_not_succeed() {
        assert_eq!(selection().mutating().succeeded().entries.len(), 1);
    }

    #[test]
    fn filters_narrow_by_resource_namespace_and_name() {
        assert_eq!(selection().resource("pods").in_namespace("shop").named("web").entries.len(), 2);
        assert!(selection().in_namespace("other").entries.is_empty());
        assert!(selection().named("other").entries.is_empty());
        assert!(selection().by_agent("helm").entries.is_empty());
    }

    #[test]
    fn counts_say_who_did_what_how_often() {
        let summary = selection().summary();
        assert!(summary.starts_with("     2 bob get pods\n"), "{summary}");
    }

    #[test]
    fn a_subresource_is_told_apart_from_its_resource() {
        let text = line("ResponseComplete", "ann", "patch", "pods", "/", 200)
            .replace("\"resource\":\"pods\"", "\"resource\":\"pods\",\"subresource\":\"status\"");
        let entries = parse(&text).unwrap();
        assert_eq!(entries.first().map(|entry| entry.resource.as_str()), Some("pods/status"));
    }

    #[test]
    fn a_request_outside_of_resources_is_kept() {
        let text = r#"{"stage":"ResponseComplete","verb":"get","requestURI":"/healthz","user":{"username":"probe"}}"#;
        assert_eq!(parse(text).unwrap().len(), 1);
    }

    #[test]
    fn a_broken_line_is_an_error_not_a_gap() {
        assert!(parse("{\"stage\":\"Resp\n").is_err());
    }
}
