//! The keys that are there before anything moves, and all of them counted afterwards. IO: pipelines to the owners of the slots.

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use load::slot;
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};
use topology::ClusterNodes;
use valkey::{Address, Connection, Reply};

const VALUE_BYTES: usize = 100;
const AT_ONCE: usize = 200;
const PATIENCE: Duration = Duration::from_secs(120);

/// Writes keys 0 to `keys`.
pub async fn fill(seed: SocketAddr, keys: u32) -> Result<()> {
    let command = |number: u32| vec!["SET".to_owned(), key(number), value(number)];
    let owners = by_owner(seed, keys).await?;
    let written = owners.into_iter().map(|(owner, numbers)| async move {
        let right = ask(owner, &numbers, command, |_, reply| matches!(reply, Reply::Simple(text) if text == "OK"));
        right.await
    });
    let written: u64 = try_join_all(written).await?.into_iter().sum();
    ensure!(written == u64::from(keys), "{written} of {keys} keys were taken");
    Ok(())
}

/// How many of the keys are there with their values.
pub async fn count(seed: SocketAddr, keys: u32) -> Result<u64> {
    let command = |number: u32| vec!["GET".to_owned(), key(number)];
    let is_right =
        |number: u32, reply: &Reply| matches!(reply, Reply::Bulk(bytes) if *bytes == value(number).as_bytes());
    let owners = by_owner(seed, keys).await?;
    let found = owners.into_iter().map(|(owner, numbers)| async move { ask(owner, &numbers, command, is_right).await });
    Ok(try_join_all(found).await?.into_iter().sum())
}

/// How many of the answers are right.
async fn ask(
    owner: SocketAddr,
    numbers: &[u32],
    command: impl Fn(u32) -> Vec<String>,
    is_right: impl Fn(u32, &Reply) -> bool,
) -> Result<u64> {
    let mut connection = Connection::open(&Address::Tcp(owner), PATIENCE).await?;
    let mut right = 0;
    for some in numbers.chunks(AT_ONCE) {
        let replies = connection.pipeline(&some.iter().copied().map(&command).collect::<Vec<_>>()).await?;
        right += some.iter().zip(&replies).filter(|(number, reply)| is_right(**number, reply)).count() as u64;
    }
    Ok(right)
}

async fn by_owner(seed: SocketAddr, keys: u32) -> Result<BTreeMap<SocketAddr, Vec<u32>>> {
    let view = view(seed).await?;
    let mut owners: BTreeMap<SocketAddr, Vec<u32>> = BTreeMap::new();
    let addresses: Vec<Option<SocketAddr>> =
        (0..slot::SLOTS).map(|slot| view.owner_of(slot).and_then(|owner| owner.address)).collect();
    for number in 0..keys {
        let slot = slot::of_key(&key(number));
        let owner = addresses.get(usize::from(slot)).copied().flatten();
        owners.entry(owner.with_context(|| format!("slot {slot} has no owner"))?).or_default().push(number);
    }
    Ok(owners)
}

pub async fn view(node: SocketAddr) -> Result<ClusterNodes> {
    Ok(Connection::open(&Address::Tcp(node), PATIENCE).await?.cluster_nodes().await?)
}

fn key(number: u32) -> String {
    format!("fill:{number}")
}

fn value(number: u32) -> String {
    format!("{number:0>VALUE_BYTES$}")
}
