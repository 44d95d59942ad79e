//! Reading a status of another version: what cannot be read is as if it were not there, and costs nothing else. Pure.
//! The operator writes all of it anew; an object that could not be read at all would have nobody to look after it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub fn value<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Value>::deserialize(from)?.and_then(read))
}

pub fn entries<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(value::<D, Vec<Value>>(from)?.into_iter().flatten().filter_map(read).collect())
}

fn read<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}
