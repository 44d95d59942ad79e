//! What is known about one Valkey parameter. Pure; the rows of the generated table.

use crate::valkey_version::ValkeyVersion;

/// One parameter as the two version lines know it.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    /// The name to use instead, when this one is only an old or second spelling of it.
    pub alias_of: Option<&'static str>,
    /// None: Valkey 8.1 does not know it, and would not start with it in its file.
    pub in_8_1: Option<Facts>,
    /// None: Valkey 9.1 does not know it.
    pub in_9_1: Option<Facts>,
}

/// What one version line says about a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub change: Change,
    /// What CONFIG GET answers on a server nobody configured.
    pub default: &'static str,
}

/// How a new value gets into effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At once, with CONFIG SET.
    Live,
    /// Only by starting the server anew.
    Restart,
    /// Like `Restart`: CONFIG SET is refused unless protected parameters were enabled at start.
    Protected,
}

impl Parameter {
    /// None when that version does not know the parameter.
    ///
    /// 9.0 lies between the two surveyed lines: it is taken to know what both know, live only if live in both.
    pub fn facts(&self, version: ValkeyVersion) -> Option<Facts> {
        match (version.major, version.minor) {
            (..9, _) => self.in_8_1,
            (9, 0) => self.in_8_1.zip(self.in_9_1).map(|(old, new)| old.more_careful(new)),
            _ => self.in_9_1,
        }
    }

    /// Whether that version needs a restart to take a new value.
    pub fn needs_restart(&self, version: ValkeyVersion) -> bool {
        self.facts(version).is_some_and(|facts| facts.change != Change::Live)
    }
}

impl Facts {
    fn more_careful(self, other: Facts) -> Facts {
        if self.change == Change::Live { other } else { self }
    }
}

pub(super) const fn parameter(
    name: &'static str,
    alias_of: Option<&'static str>,
    in_8_1: Option<Facts>,
    in_9_1: Option<Facts>,
) -> Parameter {
    Parameter { name, alias_of, in_8_1, in_9_1 }
}

pub(super) const fn live(default: &'static str) -> Option<Facts> {
    Some(Facts { change: Change::Live, default })
}

pub(super) const fn restart(default: &'static str) -> Option<Facts> {
    Some(Facts { change: Change::Restart, default })
}

pub(super) const fn protected(default: &'static str) -> Option<Facts> {
    Some(Facts { change: Change::Protected, default })
}
