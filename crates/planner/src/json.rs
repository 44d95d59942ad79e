//! Reading JSON objects without fuss. Pure; missing parts read as nothing.

use serde_json::Value;

/// The text at a JSON pointer, if there is one.
pub fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// The number at a JSON pointer, if there is one.
pub fn integer(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// The elements at a JSON pointer; none when it is absent or no list.
pub fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// `metadata.annotations[key]`; keys hold slashes, which pointers escape.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// `metadata.labels[key]`.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

/// One segment of a JSON pointer, escaped.
pub fn escaped(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}
