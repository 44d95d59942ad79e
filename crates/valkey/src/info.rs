//! The answer of INFO: `name:value` lines. Pure; probes, metrics and the hand-over read it.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
};
use topology::Role;

/// Fields by name. Typed questions return `None` when this server version does not have the field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info(HashMap<String, String>);

/// A replica as its primary sees it (`slave0:ip=…,port=…,state=online,offset=…,lag=…`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedReplica {
    pub address: SocketAddr,
    pub online: bool,
    pub offset: u64,
    pub lag_seconds: Option<u64>,
}

impl Info {
    pub fn parse(text: &str) -> Self {
        let fields = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
        Self(fields.map(|(name, value)| (key(name, value), value.trim_end().to_owned())).collect())
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// True when the field is `1`.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("1")
    }

    pub fn role(&self) -> Option<Role> {
        match self.text("role")? {
            "master" => Some(Role::Primary),
            "slave" => Some(Role::Replica),
            _ => None,
        }
    }

    pub fn is_replica(&self) -> bool {
        self.role() == Some(Role::Replica)
    }

    /// Of all databases, from the section `keyspace`: `db0:keys=3,expires=0,avg_ttl=0`.
    pub fn keys(&self) -> u64 {
        let is_database = |name: &str| name.strip_prefix("db").is_some_and(|number| number.parse::<u32>().is_ok());
        let databases = self.0.iter().filter(|(name, _)| is_database(name)).map(|(_, line)| line);
        let counts = databases.filter_map(|line| line.split(',').find_map(|pair| pair.strip_prefix("keys=")));
        counts.filter_map(|count| count.parse::<u64>().ok()).sum()
    }

    /// The loaded modules by name, each with its version, from the section `module_list`: `module:name=json,ver=10002,api=1,…`.
    pub fn modules(&self) -> BTreeMap<&str, i64> {
        let modules =
            self.0.iter().filter_map(|(key, line)| Some((key.strip_prefix(MODULE)?.strip_prefix(':')?, line)));
        modules
            .map(|(name, line)| (name, attribute(line, "ver").and_then(|ver| ver.parse().ok()).unwrap_or_default()))
            .collect()
    }

    /// Replicas attached to this primary, in the server's order; one without a readable address is left out.
    pub fn attached_replicas(&self) -> Vec<AttachedReplica> {
        (0..).map_while(|index| self.text(&format!("slave{index}"))).filter_map(attached_replica).collect()
    }
}

/// Modules all have the same name of a field.
const MODULE: &str = "module";

fn key(name: &str, value: &str) -> String {
    let module = attribute(value, "name").filter(|_| name == MODULE);
    module.map_or_else(|| name.to_owned(), |module| format!("{MODULE}:{module}"))
}

/// Of `name=json,ver=10002`.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = line.trim_end().split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn attached_replica(line: &str) -> Option<AttachedReplica> {
    let value = |name: &str| attribute(line, name);
    Some(AttachedReplica {
        address: SocketAddr::new(value("ip")?.parse().ok()?, value("port")?.parse().ok()?),
        online: value("state") == Some("online"),
        offset: value("offset")?.parse().ok()?,
        lag_seconds: value("lag").and_then(|lag| lag.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
        slave0:ip=127.0.0.1,port=7004,state=online,offset=176,lag=0,type=replica\r\n\
        slave1:ip=fd00::5,port=6379,state=send_bulk,offset=0,lag=-1,type=replica\r\n\
        master_repl_offset:176\r\nrepl_backlog_active:1\r\n";

    #[test]
    fn fields_are_found_by_name_and_missing_ones_are_none() {
        let info = Info::parse(PRIMARY);
        assert_eq!(info.role(), Some(Role::Primary));
        assert_eq!(
            ["slave", "sentinel"].map(|role| Info::parse(&format!("role:{role}\n")).role()),
            [Some(Role::Replica), None]
        );
        assert_eq!(info.number("master_repl_offset"), Some(176));
        assert_eq!(info.number("role"), None);
        assert_eq!(info.text("loading"), None);
        assert!(info.flag("repl_backlog_active") && !info.flag("loading") && !info.is_replica());
    }

    #[test]
    fn attached_replicas_are_listed_with_their_state() {
        let replicas = Info::parse(PRIMARY).attached_replicas();
        assert_eq!(replicas.len(), 2);
        let address = ([127, 0, 0, 1], 7004).into();
        let first = AttachedReplica { address, online: true, offset: 176, lag_seconds: Some(0) };
        assert_eq!(replicas[0], first);
        let second = (replicas[1].address, replicas[1].online, replicas[1].lag_seconds);
        assert_eq!(second, ("[fd00::5]:6379".parse().unwrap(), false, None));
    }

    #[test]
    fn keys_of_all_databases_are_counted() {
        let info = Info::parse("db0:keys=3,expires=0,avg_ttl=0\r\ndb21:keys=4,expires=1\r\ndbx:keys=9\r\n");
        assert_eq!((info.keys(), Info::default().keys()), (7, 0));
    }

    #[test]
    fn modules_are_listed_by_name_with_their_versions() {
        let list = "# Modules\r\nmodule:name=json,ver=10002,api=1,filters=0,usedby=[],using=[],options=[]\r\n\
            module:name=bf,ver=10000,api=1,filters=0,usedby=[],using=[],options=[handle-io-errors]\r\n";
        assert_eq!(Info::parse(list).modules(), BTreeMap::from([("bf", 10_000), ("json", 10_002)]));
        assert_eq!(Info::parse(PRIMARY).modules(), BTreeMap::new());
    }

    #[test]
    fn a_value_may_contain_colons() {
        assert_eq!(Info::parse("executable:/a:b\r\n").text("executable"), Some("/a:b"));
    }
}
