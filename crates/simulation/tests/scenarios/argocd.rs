//! Runs `docs/argocd-health.lua` as Argo CD does: the object is `obj`, what it returns is the verdict.

use mlua::{Lua, Table};
use serde_json::Value;

const CHECK: &str = include_str!("../../../../docs/argocd-health.lua");

pub fn health(object: &Value) -> Result<String, String> {
    let lua = Lua::new();
    let chunk = format!("local obj = {}\n{CHECK}", literal(object));
    let verdict = lua.load(chunk).eval::<Table>().and_then(|verdict| {
        // Argo CD shows both, and takes no verdict without a text.
        verdict.get::<_, String>("message")?;
        verdict.get("status")
    });
    verdict.map_err(|error| error.to_string())
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        // Ends nowhere but where it should, whatever is in it; a first line break would be left out.
        Value::String(text) => format!("[==[\n{text}]==]"),
        Value::Array(items) => format!("{{{}}}", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("[{name:?}] = {}", literal(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
