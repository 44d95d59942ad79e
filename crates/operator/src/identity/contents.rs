//! The data of a Secret, wiped from memory when dropped. The client's own buffers are out of reach.

use k8s_openapi::ByteString;
use std::collections::BTreeMap;
use zeroize::Zeroize;

#[derive(Default)]
pub struct Contents(BTreeMap<String, Vec<u8>>);

impl Contents {
    pub fn of(data: Option<BTreeMap<String, ByteString>>) -> Self {
        Self(data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect())
    }

    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.0.insert(key.to_owned(), value.as_bytes().to_vec());
        self
    }

    /// Empty when there is no such key.
    pub fn get(&self, key: &str) -> &[u8] {
        self.0.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn map(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.0
    }

    pub fn data(&self) -> BTreeMap<String, ByteString> {
        self.0.iter().map(|(key, value)| (key.clone(), ByteString(value.clone()))).collect()
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        self.0.values_mut().for_each(Zeroize::zeroize);
    }
}
