//! A primary that comes back acknowledges no write while its replica might still be elected: whatever it took meanwhile would be gone.
//! The gate starts it with more replicas demanded than there are; the agent takes that back when too few of the other primaries for an
//! election hold it for failed. It is kept in Valkey alone, so that a sidecar that is restarted finds it.

use crate::{configuration::wanted::Values, voters};
use api::{parameters, valkey_version::ValkeyVersion};
use sidecar_rules::{boot::Past, voters::can_be_voted_out};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use topology::Role;
use valkey::{CallError, Connection, Info};

const REPLICAS: &str = "min-replicas-to-write";
/// Zero would switch the other off.
const LAG: &str = "min-replicas-max-lag";
/// The most that Valkey takes.
const UNREACHABLE: &str = "2147483647";
/// Three node timeouts: by then a node that hears this one has seen that it runs, whatever it held it for.
const TRUSTING_AFTER_SECONDS: u64 = 15;
/// The agent comes by more often, and each round asks many.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(500);
/// A replica whose sidecar consented a moment before has been elected by then, or is not.
const SETTLED: Duration = Duration::from_secs(2);
const REASON: &str =
    "a replica of it may still be elected: it takes no writes until most of the other primaries see that it runs";

/// What is put behind the configuration of a Valkey that comes back.
pub fn lines(past: &Past) -> String {
    let returns = past
        .node()
        .is_some_and(|node| node.role == Role::Primary && !node.slots.is_empty() && node.copies().next().is_some());
    if returns { format!("{REPLICAS} {UNREACHABLE}\n{LAG} 10\n") } else { String::new() }
}

/// What is known of one server process.
#[derive(Debug, Default)]
pub struct Writes {
    run: String,
    /// It takes writes, and goes on taking them.
    taken: bool,
    /// When the others were last asked.
    asked: Option<Instant>,
    /// Since when nobody could be elected against it.
    safe_since: Option<Instant>,
}

impl Writes {
    /// Lets the server take writes as soon as that is safe; until then, why not.
    pub async fn review(
        &mut self,
        connection: &mut Connection,
        info: &Info,
        wanted: &Values,
        version: ValkeyVersion,
    ) -> Result<Option<&'static str>, CallError> {
        let run = info.text("run_id").unwrap_or_default();
        if run != self.run {
            *self = Self { run: run.to_owned(), ..Self::default() };
        }
        if !self.taken && is_withheld(connection).await? {
            if info.flag("loading") || !self.is_safe(connection, info).await? {
                return Ok(Some(REASON));
            }
            release(connection, wanted, version).await?;
        }
        self.taken = true;
        Ok(None)
    }

    async fn is_safe(&mut self, connection: &mut Connection, info: &Info) -> Result<bool, CallError> {
        if self.asked.is_none_or(|asked| asked.elapsed() >= BETWEEN_ROUNDS) {
            self.asked = Some(Instant::now());
            let trusting = info.number("uptime_in_seconds").is_some_and(|uptime| uptime >= TRUSTING_AFTER_SECONDS);
            let nodes = connection.cluster_nodes().await?;
            let Some(own) = nodes.voters().find(|node| node.has_flag("myself")) else { return Ok(true) };
            let unsafe_now = can_be_voted_out(&voters::opinions_of(&own.id, nodes.voters()).await, trusting);
            self.safe_since = if unsafe_now { None } else { self.safe_since.or_else(|| Some(Instant::now())) };
        }
        Ok(self.safe_since.is_some_and(|since| since.elapsed() >= SETTLED))
    }
}

async fn is_withheld(connection: &mut Connection) -> Result<bool, CallError> {
    Ok(connection.config_get(&[REPLICAS]).await?.get(REPLICAS).is_some_and(|value| value == UNREACHABLE))
}

async fn release(connection: &mut Connection, wanted: &Values, version: ValkeyVersion) -> Result<(), CallError> {
    match connection.config_set(&ordinary(wanted, version)).await {
        // What is wrong with the user's values is said when they are applied.
        Err(CallError::Refused(_)) => connection.config_set(&ordinary(&Values::new(), version)).await?,
        other => other?,
    }
    tracing::info!("it takes writes: the other primaries see that it runs");
    Ok(())
}

fn ordinary(wanted: &Values, version: ValkeyVersion) -> BTreeMap<String, String> {
    let value = |name: &str| {
        let default = || parameters::find(name)?.facts(version).map(|facts| facts.default.to_owned());
        Some((name.to_owned(), wanted.get(name).cloned().or_else(default)?))
    };
    [REPLICAS, LAG].into_iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::wanted::tests::{values, version};

    const NODES: &str = "\
me 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-5460
o1 10.0.0.3:6379@16379 master - 0 1 3 connected 5461-16383
";

    #[test]
    fn a_primary_with_slots_and_a_replica_comes_back_without_taking_writes() {
        let replica = "r1 10.0.0.2:6379@16379 slave me 0 1 7 connected\n";
        assert_eq!(lines(&Past::parse(NODES)), "", "nobody could take its place");
        assert_eq!(lines(&Past::Unknown), "");
        let text = lines(&Past::parse(&format!("{NODES}{replica}")));
        assert_eq!(text, "min-replicas-to-write 2147483647\nmin-replicas-max-lag 10\n");
        let was_replica = format!("{NODES}{replica}").replace("myself,master - ", "myself,slave o1 ");
        assert_eq!(lines(&Past::parse(&was_replica)), "");
    }

    #[test]
    fn it_goes_back_to_what_the_user_asked_for_or_to_valkeys_own() {
        let asked = values(&[("min-replicas-to-write", "1"), ("hz", "20")]);
        let expected = values(&[("min-replicas-to-write", "1"), ("min-replicas-max-lag", "10")]);
        assert_eq!(ordinary(&asked, version("9.1")), expected);
        let expected = values(&[("min-replicas-to-write", "0"), ("min-replicas-max-lag", "10")]);
        assert_eq!(ordinary(&Values::new(), version("8.1")), expected);
    }
}
