//! What to change on a running server so that it has what is wanted. Pure; `apply` gathers the facts and executes.

use super::{
    record::Record,
    value,
    wanted::{Values, Wanted},
};
use api::{parameters, valkey_version::ValkeyVersion};
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// To be set, all in one command.
    pub set: Values,
    /// Already so; only to be noted, with the server's spelling.
    pub confirm: Values,
    /// Parameters not known to us that this server does not have either.
    pub absent: BTreeSet<String>,
    /// Back at their default, nothing left to remember.
    pub forget: BTreeSet<String>,
    /// What only a restart brings into effect.
    pub pending: Vec<Pending>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pending {
    pub parameter: String,
    pub running: String,
    pub wanted: String,
}

/// The parameters `plan` needs to know from the server.
pub fn names(wanted: &Wanted, record: &Record) -> BTreeSet<String> {
    let wished = wanted.live.keys().chain(wanted.tried.keys()).chain(wanted.restart.keys()).chain(wanted.held.keys());
    wished.chain(record.accepted.keys()).chain(record.started_with.keys()).cloned().collect()
}

pub fn plan(wanted: &Wanted, record: &Record, version: ValkeyVersion, server: &Values) -> Plan {
    let mut plan = Plan::default();
    for (name, value) in &wanted.live {
        plan.want(name, value, record, server);
    }
    for (name, value) in &wanted.tried {
        plan.want(name, value, record, server);
    }
    plan.absent = wanted.tried.keys().filter(|name| !server.contains_key(*name)).cloned().collect();
    for (name, value) in &wanted.held {
        plan.hold(name, value, record, server);
    }
    let kept = |name: &String| [&wanted.live, &wanted.tried, &wanted.restart].iter().any(|of| of.contains_key(name));
    for name in record.accepted.keys().filter(|name| !kept(name)) {
        plan.revert(name, default_of(name, version).or(record.original(name)), server);
    }
    for (name, value) in &wanted.restart {
        plan.await_restart(name, value, server);
    }
    for name in record.started_with.keys().filter(|name| !wanted.restart.contains_key(*name)) {
        match default_of(name, version) {
            Some(default) if !wanted.live.contains_key(name) => plan.await_restart(name, default, server),
            _ => {}
        }
    }
    plan
}

impl Plan {
    fn want(&mut self, name: &str, value: &str, record: &Record, server: &Values) {
        let Some(current) = server.get(name) else { return };
        let accepted = record.accepted.get(name).filter(|accepted| accepted.value == value);
        let known_spelling = accepted.is_some_and(|accepted| accepted.reported == *current);
        if record.refuses(name, value) || known_spelling {
            return;
        }
        let target = if value::same(value, current) { &mut self.confirm } else { &mut self.set };
        target.insert(name.to_owned(), value.to_owned());
    }

    fn hold(&mut self, name: &str, value: &str, record: &Record, server: &Values) {
        let differs = server.get(name).is_some_and(|current| !value::same(value, current));
        if differs && !record.refuses(name, value) {
            self.set.insert(name.to_owned(), value.to_owned());
        }
    }

    fn revert(&mut self, name: &str, default: Option<&str>, server: &Values) {
        match (default, server.get(name)) {
            (Some(default), Some(current)) if !value::same(default, current) => {
                self.set.insert(name.to_owned(), default.to_owned());
            }
            _ => {
                self.forget.insert(name.to_owned());
            }
        }
    }

    fn await_restart(&mut self, name: &str, value: &str, server: &Values) {
        if let Some(current) = server.get(name).filter(|current| !value::same(value, current)) {
            let pending = Pending { parameter: name.to_owned(), running: current.clone(), wanted: value.to_owned() };
            self.pending.push(pending);
        }
    }
}

fn default_of(name: &str, version: ValkeyVersion) -> Option<&'static str> {
    parameters::find(name)?.facts(version).map(|facts| facts.default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::wanted::tests::{pod, settings, values, version};

    fn planned(parameters: &[(&str, &str)], record: &Record, server: &[(&str, &str)]) -> Plan {
        let wanted = Wanted::new(&pod(), &settings(parameters), version("9.1"));
        plan(&wanted, record, version("9.1"), &values(server))
    }

    #[test]
    fn only_what_differs_is_set_and_another_spelling_is_no_difference() {
        let server = [("hz", "10"), ("maxmemory", "104857600")];
        let plan = planned(&[("hz", "20"), ("maxmemory", "100mb")], &Record::default(), &server);
        assert_eq!(plan.set, values(&[("hz", "20")]));
        assert_eq!(plan.confirm, values(&[("maxmemory", "100mb")]));
    }

    #[test]
    fn the_servers_own_spelling_of_an_accepted_value_is_left_alone_and_drift_is_not() {
        let mut record = Record::default();
        record.accept("notify-keyspace-events", "KEA", "AKE");
        let wish = [("notify-keyspace-events", "KEA")];
        assert_eq!(planned(&wish, &record, &[("notify-keyspace-events", "AKE")]), Plan::default());
        assert_eq!(planned(&wish, &record, &[("notify-keyspace-events", "")]).set, values(&wish));
    }

    #[test]
    fn what_is_ours_is_set_back_when_somebody_changed_it_by_hand() {
        let ours = [("cluster-node-timeout", "5000"), ("cluster-announce-ip", "10.0.0.7")];
        assert_eq!(planned(&[], &Record::default(), &ours), Plan::default());
        let by_hand = [("cluster-node-timeout", "60000"), ("cluster-announce-ip", "10.0.0.7")];
        assert_eq!(planned(&[], &Record::default(), &by_hand).set, values(&[("cluster-node-timeout", "5000")]));
    }

    #[test]
    fn a_refused_value_is_not_tried_again_and_a_corrected_one_is() {
        let mut record = Record::default();
        record.refuse("hz", "bogus", "not a number");
        assert_eq!(planned(&[("hz", "bogus")], &record, &[("hz", "10")]), Plan::default());
        assert_eq!(planned(&[("hz", "20")], &record, &[("hz", "10")]).set, values(&[("hz", "20")]));
    }

    #[test]
    fn a_parameter_taken_out_goes_back_to_its_default_and_is_then_forgotten() {
        let mut record = Record::default();
        record.accept("hz", "50", "50");
        assert_eq!(planned(&[], &record, &[("hz", "50")]).set, values(&[("hz", "10")]));
        let after = planned(&[], &record, &[("hz", "10")]);
        assert!(after.set.is_empty() && after.forget.contains("hz"));
    }

    #[test]
    fn what_nobody_knows_is_set_where_the_server_has_it_and_goes_back_to_what_it_was() {
        let (wish, mut record) = ([("search.timeout", "500"), ("maxmemroy", "1gb")], Record::default());
        let there = planned(&wish, &record, &[("search.timeout", "100")]);
        assert_eq!((there.set, there.absent), (values(&[("search.timeout", "500")]), ["maxmemroy".to_owned()].into()));
        record.accept("search.timeout", "500", "500");
        record.keep_original("search.timeout", "100");
        assert!(planned(&wish, &record, &[("search.timeout", "500")]).set.is_empty());
        assert_eq!(planned(&[], &record, &[("search.timeout", "500")]).set, values(&[("search.timeout", "100")]));
        assert!(planned(&[], &record, &[("search.timeout", "100")]).forget.contains("search.timeout"));
    }

    #[test]
    fn what_needs_a_restart_is_listed_also_when_it_was_taken_out() {
        let server = [("tcp-backlog", "511")];
        let plan = planned(&[("tcp-backlog", "100")], &Record::default(), &server);
        let expected = Pending { parameter: "tcp-backlog".into(), running: "511".into(), wanted: "100".into() };
        assert_eq!((plan.set, plan.pending), (Values::new(), vec![expected]));
        let record = Record { started_with: values(&[("tcp-backlog", "100")]), ..Default::default() };
        let plan = planned(&[], &record, &[("tcp-backlog", "100")]);
        assert_eq!(plan.pending.first().map(|pending| pending.wanted.as_str()), Some("511"));
        assert_eq!(planned(&[], &record, &server).pending, []);
    }
}
