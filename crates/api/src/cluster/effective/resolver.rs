//! Finds the highest layer that has a value, and remembers which one it was. Pure; used field by field.

use super::{Layers, Origin, Origins};
use crate::cluster::ValkeyClusterSpec;
use std::collections::BTreeMap;

pub struct Resolver<'a> {
    layers: Layers<'a>,
    pub origins: Origins,
}

impl<'a> Resolver<'a> {
    pub fn new(layers: Layers<'a>) -> Self {
        Self { layers, origins: Origins::new() }
    }

    /// What the highest layer has that has it, as it stands there.
    pub fn highest<T>(&self, get: impl Fn(&'a ValkeyClusterSpec) -> Option<&'a T>) -> Option<&'a T> {
        self.layers.downwards().find_map(|(_, spec)| get(spec))
    }

    /// A value that may be missing in all layers.
    pub fn find<T: Clone>(&mut self, path: &str, get: impl Fn(&ValkeyClusterSpec) -> Option<&T>) -> Option<T> {
        let found = self.layers.downwards().find_map(|(origin, spec)| Some((origin, get(spec)?.clone())));
        found.map(|(origin, value)| {
            self.note(path, origin);
            value
        })
    }

    /// A value with a built-in default.
    pub fn value<T: Clone>(
        &mut self,
        path: &str,
        get: impl Fn(&ValkeyClusterSpec) -> Option<&T>,
        built_in: impl Into<T>,
    ) -> T {
        self.find(path, get).unwrap_or_else(|| {
            self.note(path, Origin::BuiltIn);
            built_in.into()
        })
    }

    /// A map of which each key is looked up by itself.
    pub fn map<T: Clone>(
        &mut self,
        path: &str,
        get: impl Fn(&ValkeyClusterSpec) -> Option<&BTreeMap<String, T>>,
    ) -> BTreeMap<String, T> {
        let mut merged = BTreeMap::new();
        for (origin, spec) in self.layers.downwards() {
            for (key, value) in get(spec).into_iter().flatten() {
                if !merged.contains_key(key) {
                    merged.insert(key.clone(), value.clone());
                    self.note(&format!("{path}[{key}]"), origin);
                }
            }
        }
        merged
    }

    /// Looks at the other layers alone, unless only the running one has this.
    pub fn put_aside_running_unless<T: 'a>(
        &mut self,
        get: impl Fn(&'a ValkeyClusterSpec) -> Option<&'a T>,
    ) -> Option<&'a ValkeyClusterSpec> {
        let highest = self.layers.downwards().find(|(_, spec)| get(spec).is_some());
        let runs = self.layers.running;
        if highest.is_some_and(|(origin, _)| origin != Origin::Running) {
            self.layers.running = None;
        }
        runs
    }

    pub fn put_back_running(&mut self, running: Option<&'a ValkeyClusterSpec>) {
        self.layers.running = running;
    }

    pub fn note(&mut self, path: &str, origin: Origin) {
        self.origins.insert(format!("spec.{path}"), origin);
    }
}
