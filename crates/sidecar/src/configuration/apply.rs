//! Brings a running server to the wanted parameters. IO over the given connection; the agent's loop calls it.

use super::{
    plan::{self, Pending, Plan},
    record::Record,
    value,
    wanted::{Values, Wanted},
};
use api::valkey_version::ValkeyVersion;
use std::collections::BTreeMap;
use valkey::{CallError, Connection, RefusalKind};

const NO_SUCH_PARAMETER: &str = "this Valkey has no such parameter";

/// What a review of the server found.
pub struct Applied {
    /// What waits for a restart.
    pub pending: Vec<Pending>,
    /// Of the parameters that we do not know, why each is not in effect; empty when it is.
    pub tried: BTreeMap<String, String>,
}

/// What the server has in place of what is to be tried: on the volume before anything is set, so that whoever comes after can put it back.
pub async fn keep_originals(
    connection: &mut Connection,
    wanted: &Wanted,
    record: &mut Record,
) -> Result<(), CallError> {
    let is_new = |name: &&String| record.original(name).is_none() && !record.accepted.contains_key(*name);
    let names: Vec<&str> = wanted.tried.keys().filter(is_new).map(String::as_str).collect();
    if names.is_empty() {
        return Ok(());
    }
    let server = connection.config_get(&names).await?;
    let differs = |(name, present): &(&String, &String)| {
        wanted.tried.get(*name).is_some_and(|wished| !value::same(wished, present))
    };
    server.iter().filter(differs).for_each(|(name, present)| record.keep_original(name, present));
    Ok(())
}

/// Sets what differs, and notes what the server accepted and refused.
pub async fn apply(
    connection: &mut Connection,
    wanted: &Wanted,
    version: ValkeyVersion,
    record: &mut Record,
) -> Result<Applied, CallError> {
    let names = plan::names(wanted, record);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = connection.config_get(&names).await?;
    let plan = plan::plan(wanted, record, version, &server);
    note_unchanged(&plan, &server, record);
    let wishes = [&wanted.live, &wanted.tried, &wanted.held, &wanted.restart];
    record.forget_refusals_but(|name, value| wishes.iter().any(|of| of.get(name).is_some_and(|wish| wish == value)));
    let set = set_all_but_refused(connection, plan.set, record).await?;
    verify(connection, set, wanted, record).await?;
    record.started_with.extend(wanted.restart.clone());
    let why = |(name, value): (&String, &String)| {
        let refused = record.refused.get(name).filter(|refused| refused.value == *value);
        match refused {
            _ if plan.absent.contains(name) => NO_SUCH_PARAMETER.to_owned(),
            Some(refused) => refused.reason.clone(),
            None => String::new(),
        }
    };
    let tried = wanted.tried.iter().map(|tried| (tried.0.clone(), why(tried))).collect();
    Ok(Applied { pending: plan.pending, tried })
}

fn note_unchanged(plan: &Plan, server: &Values, record: &mut Record) {
    for (name, value) in &plan.confirm {
        record.accept(name, value, server.get(name).unwrap_or(value));
    }
    plan.forget.iter().for_each(|name| record.forget(name));
}

/// One command sets all or nothing. When it is refused for one parameter, that one is noted and the others are tried
/// again together: a bad value must not hold back the good ones. Returns what was set.
async fn set_all_but_refused(
    connection: &mut Connection,
    mut values: Values,
    record: &mut Record,
) -> Result<Values, CallError> {
    loop {
        let refusal = match connection.config_set(&values).await {
            Ok(()) => return Ok(values),
            Err(CallError::Refused(refusal)) if is_about_a_value(refusal.kind) => refusal,
            Err(other) => return Err(other),
        };
        let culprit = values.keys().find(|name| refusal.message.contains(&format!("'{name}'"))).cloned();
        let removed = match culprit {
            Some(name) => values.remove_entry(&name).into_iter().collect::<Values>(),
            None => std::mem::take(&mut values),
        };
        for (name, value) in &removed {
            tracing::warn!(parameter = %name, %value, reason = %refusal, "Valkey refused a parameter; its old value stays");
            record.refuse(name, value, &refusal.message);
        }
    }
}

/// LOADING and BUSY are about the moment, not about the value.
fn is_about_a_value(kind: RefusalKind) -> bool {
    matches!(kind, RefusalKind::Other)
}

async fn verify(
    connection: &mut Connection,
    set: Values,
    wanted: &Wanted,
    record: &mut Record,
) -> Result<(), CallError> {
    let names: Vec<&str> = set.keys().map(String::as_str).collect();
    let reported: BTreeMap<String, String> = connection.config_get(&names).await?;
    for (name, value) in &set {
        let now = reported.get(name).map_or("", String::as_str);
        tracing::info!(parameter = %name, %value, reported = %now, same = value::same(value, now), "parameter set");
        if wanted.live.contains_key(name) || wanted.tried.contains_key(name) {
            record.accept(name, value, now);
        } else {
            record.forget(name);
        }
    }
    Ok(())
}
