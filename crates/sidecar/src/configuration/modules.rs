//! The modules of this pod, as its environment names them and as valkey.conf does. Pure.

use api::module::Module;
use std::str::FromStr;

/// In the order in which they are loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules(pub Vec<Module>);

impl FromStr for Modules {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text).map(Modules)
    }
}

impl Modules {
    /// What stands behind `loadmodule`, each.
    pub fn arguments(&self) -> impl Iterator<Item = Vec<&str>> {
        self.0.iter().map(|module| {
            let arguments = module.args.iter().map(String::as_str);
            std::iter::once(module.path.as_str()).chain(arguments).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_writes_is_read_and_nonsense_is_refused() {
        let text = r#"[{"path":"/a.so"},{"path":"/b.so","args":["x","1 2"],"addedLater":1}]"#;
        let modules: Modules = text.parse().unwrap();
        assert_eq!(modules.arguments().collect::<Vec<_>>(), [vec!["/a.so"], vec!["/b.so", "x", "1 2"]]);
        assert!("/a.so".parse::<Modules>().is_err());
    }
}
