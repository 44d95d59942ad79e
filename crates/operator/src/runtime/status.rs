//! Writes statuses of our objects so that they are the operator's alone. An apply leaves what somebody else wrote beside it, and is
//! refused when that is invalid without what was ours: such remnants are taken out. Field managers stay as an older operator has them.

use crate::metrics::Metrics;
use api::names::MANAGER;
use api::text::listed;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};

/// Remnants that the log names.
const NAMED: usize = 10;
/// The one list of a status whose entries can have several owners, by what tells them apart.
const CONDITIONS: (&str, &str) = ("/status/conditions", "type");

/// A status to be written.
pub struct StatusWrite<'a> {
    pub api: Api<DynamicObject>,
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    /// Of a namesake made in the meantime nothing is known.
    pub uid: &'a str,
    pub status: &'a Value,
    /// Fields of it that others of ours write, each under a field manager of its own.
    pub beside: &'a [&'a str],
    pub metrics: &'a Metrics,
    pub written_as: &'static str,
}

impl StatusWrite<'_> {
    /// The object as it is then.
    pub async fn run(&self) -> kube::Result<DynamicObject> {
        match self.apply().await {
            Ok(written) => {
                let remnants = self.remnants(&written);
                if remnants.is_empty() { Ok(written) } else { self.take_out(&written, remnants).await }
            }
            Err(kube::Error::Api(refused)) if refused.code == 422 => {
                let remnants = self.stored().await.map(|stored| (self.remnants(&stored), stored));
                let Some((remnants, stored)) = remnants.filter(|(remnants, _)| !remnants.is_empty()) else {
                    return Err(kube::Error::Api(refused));
                };
                self.take_out(&stored, remnants).await?;
                self.apply().await
            }
            failed => failed,
        }
    }

    async fn apply(&self) -> kube::Result<DynamicObject> {
        let metadata = json!({ "name": self.name, "uid": self.uid });
        let patch =
            json!({ "apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, "status": self.status });
        self.metrics.write("apply", self.written_as);
        self.api.patch_status(self.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&patch)).await
    }

    async fn stored(&self) -> Option<DynamicObject> {
        let stored = self.api.get(self.name).await.ok()?;
        (stored.metadata.uid.as_deref() == Some(self.uid)).then_some(stored)
    }

    fn remnants(&self, stored: &DynamicObject) -> Vec<String> {
        let Some(Value::Object(mut fields)) = stored.data.get("status").cloned() else { return Vec::new() };
        fields.retain(|name, _| !self.beside.contains(&name.as_str()));
        remnants(&Value::Object(fields), self.status, "/status")
    }

    /// Only removes, so that nothing of the status gets a second owner.
    async fn take_out(&self, stored: &DynamicObject, remnants: Vec<String>) -> kube::Result<DynamicObject> {
        let (kind, name) = (self.kind, self.name);
        tracing::warn!(
            kind,
            name,
            "the status is the operator's, what somebody wrote into it goes: {}",
            listed(&remnants, NAMED)
        );
        // Places in a list are those of this version.
        let metadata = &stored.metadata;
        let test = |field: &str, value: &Option<String>| json!({ "op": "test", "path": format!("/metadata/{field}"), "value": value });
        let tests = [test("uid", &metadata.uid), test("resourceVersion", &metadata.resource_version)];
        let removals = remnants.iter().map(|path| json!({ "op": "remove", "path": path }));
        let patch =
            serde_json::from_value(tests.into_iter().chain(removals).collect()).map_err(kube::Error::SerdeError)?;
        self.metrics.write("patch", self.written_as);
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.api.patch_status(self.name, &parameters, &Patch::Json::<()>(patch)).await
    }
}

/// Paths in what is stored that ours does not have; of a list the last place comes first, since removing moves those behind.
fn remnants(stored: &Value, ours: &Value, path: &str) -> Vec<String> {
    match (stored, ours) {
        (Value::Object(stored), Value::Object(ours)) => of_object(stored, ours, path),
        (Value::Array(stored), Value::Array(ours)) if path == CONDITIONS.0 => of_conditions(stored, ours),
        _ => Vec::new(),
    }
}

fn of_object(stored: &Map<String, Value>, ours: &Map<String, Value>, path: &str) -> Vec<String> {
    let below = |(name, value): (&String, &Value)| {
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        ours.get(name).map_or_else(|| vec![path.clone()], |own| remnants(value, own, &path))
    };
    stored.iter().flat_map(below).collect()
}

fn of_conditions(stored: &[Value], ours: &[Value]) -> Vec<String> {
    let (list, key) = CONDITIONS;
    let own = |condition: &Value| ours.iter().find(|own| own.get(key) == condition.get(key));
    let below = |(place, condition): (usize, &Value)| {
        let path = format!("{list}/{place}");
        own(condition).map_or_else(|| vec![path.clone()], |own| remnants(condition, own, &path))
    };
    stored.iter().enumerate().rev().flat_map(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_found_wherever_it_is_and_nothing_of_ours() {
        let ours = json!({ "phase": "Running", "exporter": { "enabled": true }, "queue": [],
            "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Degraded", "status": "False" }] });
        assert_eq!(remnants(&ours, &ours, "/status"), [""; 0]);
        let stored = json!({ "phase": "Running", "plan": "forged", "a/b~c": 1, "queue": [],
            "exporter": { "enabled": true, "metricsEndpoint": "http://elsewhere" },
            "conditions": [{ "type": "Theirs" }, { "type": "Degraded", "status": "False" }, { "type": "Another" },
                { "type": "Ready", "status": "True", "observedGeneration": 7 }] });
        let mut found = remnants(&stored, &ours, "/status");
        let places = found.extract_if(.., |path| path.starts_with("/status/conditions")).collect::<Vec<_>>();
        let conditions = ["3/observedGeneration", "2", "0"].map(|place| format!("/status/conditions/{place}"));
        assert_eq!(places, conditions, "the last place first");
        found.sort();
        assert_eq!(found, ["/status/a~1b~0c", "/status/exporter/metricsEndpoint", "/status/plan"]);
    }
}
