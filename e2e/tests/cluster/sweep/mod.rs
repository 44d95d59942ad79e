//! Every field set, changed, unset and given nonsense, in random order, on a cluster that lives: each step ends converged, or refused by
//! the field's name with nothing changed, and taking a bad value back always heals. The short run is always the same one; the long run is
//! another each time, and SWEEP_SEED repeats it.

mod leaves;

use anyhow::{Context, Result, bail, ensure};
use api::cluster::ValkeyCluster;
use e2e::{Cluster, Scenario, Verdict, cluster};
use kube::api::{Patch, PatchParams};
use leaves::{Field, fields};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(1800);
/// What is said when a value is only found wrong after the API server took it.
const WRONG: &str = "Degraded";

#[test]
fn forty_steps_through_the_fields_end_converged_or_refused() -> Result<()> {
    sweep("forty-steps-through-the-fields", 40, || 1)
}

#[test]
#[ignore = "three hundred steps take minutes"]
fn three_hundred_steps_through_the_fields_end_converged_or_refused() -> Result<()> {
    sweep("three-hundred-steps-through-the-fields", 300, || fastrand::u64(..))
}

fn sweep(name: &str, steps: usize, seed: fn() -> u64) -> Result<()> {
    Scenario::named(name).timeout(LIMIT).run(async |test| {
        let asked = std::env::var("SWEEP_SEED").ok().and_then(|text| text.parse().ok());
        let seed = asked.unwrap_or_else(seed);
        test.note(format!("SWEEP_SEED={seed}"));
        let (mut random, fields) = (fastrand::Rng::with_seed(seed), fields()?);
        let swept = Cluster::create(test, "swept", json!({})).await?;
        let first = spec(&swept.ready().await?)?;
        let lives = cluster::lives(&swept.pods().await?);
        for number in 1..=steps {
            let field = random.choice(&fields).context("there are fields")?;
            let change = Change::random(field, &mut random)?;
            let what = format!("step {number} of {steps}, seed {seed}: {} {change:?}", field.path);
            test.note(what.clone());
            step(&swept, field, &change).await.context(what)?;
        }
        replace(&swept, &first).await.context("go back to the first spec")?;
        converged(&swept).await?;
        swept.says("RestartRequired", "False", Some("NothingPending")).await?;
        ensure!(cluster::lives(&swept.pods().await?) == lives, "pods were restarted on the way");
        Ok(())
    })
}

#[derive(Debug)]
enum Change {
    Good(Value),
    Unset,
    Bad(Value),
}

impl Change {
    fn random(field: &Field, random: &mut fastrand::Rng) -> Result<Self> {
        let one = |values: &[Value], random: &mut fastrand::Rng| random.choice(values).cloned().context("values");
        Ok(match random.u8(..4) {
            0 => Self::Unset,
            1 => Self::Bad(one(&field.bad, random)?),
            _ => Self::Good(one(&field.good, random)?),
        })
    }

    fn value(&self) -> Option<&Value> {
        match self {
            Self::Good(value) | Self::Bad(value) => Some(value),
            Self::Unset => None,
        }
    }
}

async fn step(swept: &Cluster<'_>, field: &Field, change: &Change) -> Result<()> {
    let before = spec(&swept.get().await?)?;
    let bad = matches!(change, Change::Bad(_));
    match replace(swept, &field.put(&before, change.value())).await {
        Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => {
            let message = &status.message;
            ensure!(bad || field.fixed || field.bound, "a good value was refused: {message}");
            ensure!(field.is_named_in(message), "the refusal does not name the field: {message}");
            ensure!(spec(&swept.get().await?)? == before, "it was refused and changed something");
        }
        Err(error) => bail!(error),
        Ok(()) if bad => {
            refused(swept, field).await?;
            replace(swept, &before).await.context("take the bad value back")?;
            converged(swept).await.context("after the bad value was taken back")?;
        }
        Ok(()) => {
            converged(swept).await?;
            if field.brief {
                replace(swept, &before).await.context("take it back")?;
                converged(swept).await?;
            }
        }
    }
    Ok(())
}

fn spec(cluster: &ValkeyCluster) -> Result<Value> {
    serde_json::to_value(&cluster.spec).context("the spec as JSON")
}

/// As a whole: whoever merges leaves keys behind.
async fn replace(swept: &Cluster<'_>, spec: &Value) -> kube::Result<()> {
    let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).map_err(kube::Error::SerdeError)?);
    swept.api().patch(&swept.name, &PatchParams::default(), &patch).await.map(drop)
}

async fn converged(swept: &Cluster<'_>) -> Result<()> {
    swept.says(WRONG, "False", None).await?;
    swept.ready().await.map(drop)
}

/// The operator says by the field's name that it does not take this.
async fn refused(swept: &Cluster<'_>, field: &Field) -> Result<()> {
    let what = format!("{} to be told as wrong", field.path);
    let judge = |cluster: Option<&ValkeyCluster>| {
        let Some(cluster) = cluster else { return Verdict::not_yet("it does not exist") };
        let current = |found: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            found.observed_generation == cluster.metadata.generation && found.status == "True"
        };
        let found = cluster::condition(cluster, WRONG).filter(current);
        Verdict::when(found.is_some_and(|found| field.is_named_in(&found.message)), || format!("it says {found:?}"))
    };
    swept.test.wait_for_object::<ValkeyCluster, _>(&swept.name, &what, e2e::PATIENCE, judge).await
}
