//! The measurement itself, step by step, and what it prints.

use crate::{
    Arguments, bare,
    certificates::{Files, Installation},
    child::{Counts, Orders, Part},
    fleet::Fleet,
    hostile::{self, Tried},
    numbers::percentile,
};
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(50);

struct Bench<'a> {
    arguments: &'a Arguments,
    /// Outlives the operator's process, as its Secret does.
    operator: Files,
    installation: Installation,
    fleet: Fleet,
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    let installation = Installation::new()?;
    let operator = installation.operator()?;
    let mut bench = Bench { arguments, operator, installation, fleet: Fleet::new() };
    let count = arguments.sidecars;
    println!("{count} sidecars, {} to a cluster, one operator process of one thread", arguments.pods_per_cluster);
    let sidecar = bench.installation.cluster("floor")?;
    let floor = bare::floor(count, &bench.operator, &sidecar).await?;
    line("floor: memory for bare TLS connections", &mib(floor), "");
    let address = free_address()?;
    let mut server = bench.operator(&address, false)?;
    server.hear()?;
    let empty = server.resident_kib()?;
    line("operator's memory with nobody connected", &mib(empty), "");
    bench.connect_all(&address).await?;
    if arguments.only_hostile {
        return bench.beside_hostile_tenants(server, &address).await;
    }
    bench.steady_state(&mut server, floor, empty).await?;
    for _ in 0..arguments.rotations {
        bench.rotate(&mut server).await?;
    }
    server = bench.restart(server, &address).await?;
    bench.one_sidecar(&address).await?;
    bench.beside_hostile_tenants(server, &address).await
}

impl Bench<'_> {
    fn operator(&self, address: &str, per_address: bool) -> Result<Part> {
        Part::start("serve", &Orders { files: self.operator.clone(), address: address.to_owned(), per_address })
    }

    async fn connect_all(&mut self, address: &str) -> Result<()> {
        let began = Instant::now();
        let mut left = self.arguments.sidecars;
        while left > 0 {
            let (name, pods) = (format!("c{left}"), left.min(self.arguments.pods_per_cluster.max(1)));
            let files = self.installation.cluster(&name)?;
            self.fleet.add_cluster(&name, pods, &files, address)?;
            left -= pods;
            // Clusters do not appear all in one instant.
            sleep(Duration::from_millis(20)).await;
        }
        self.all_connected().await?;
        line("all connected for the first time after", &seconds(began.elapsed()), "");
        Ok(())
    }

    async fn all_connected(&self) -> Result<()> {
        self.until("all sidecars to be connected", |fleet| fleet.connected() == self.arguments.sidecars).await
    }

    async fn until(&self, what: &str, condition: impl Fn(&Fleet) -> bool) -> Result<()> {
        let began = Instant::now();
        while !condition(&self.fleet) {
            if began.elapsed() > PATIENCE {
                let (up, problem) = (self.fleet.connected(), self.fleet.problem());
                bail!("waited {PATIENCE:?} for {what}: {up} are connected; one says {problem:?}");
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    async fn steady_state(&self, server: &mut Part, floor: u64, empty: u64) -> Result<()> {
        // Until then heartbeats tell how long the first took, in the rush of connecting.
        sleep(Duration::from_secs(self.arguments.settle_seconds)).await;
        let _: Counts = server.ask()?;
        let (began, before) = (Instant::now(), server.processor_time()?);
        sleep(Duration::from_secs(self.arguments.seconds)).await;
        let used = (server.processor_time()? - before).as_secs_f64() / began.elapsed().as_secs_f64();
        let memory = server.resident_kib()?;
        let mut counts: Counts = server.ask()?;
        let ratio = memory as f64 / floor as f64;
        line("operator's memory", &mib(memory), &format!("≤ 400 MiB; {ratio:.2} × floor"));
        let each = (memory - empty) as f64 / self.arguments.sidecars as f64;
        line("  of it for one sidecar", &format!("{each:.1} KiB"), "");
        line("operator's processor, steady", &percent(used), "≤ 10 % of a core");
        line("heartbeats in that time", &counts.served.len().to_string(), "");
        let (half, most) = (percentile(&mut counts.round_trips, 50), percentile(&mut counts.round_trips, 99));
        line("heartbeat there and back, P50", &format!("{half:.1?}"), "");
        line("heartbeat there and back, P99", &format!("{most:.1?}"), "≤ 50 ms");
        line("  of it in the operator, P99", &format!("{:.1?}", percentile(&mut counts.served, 99)), "");
        line("refused meanwhile", &format!("{:?}", counts.refusals), "none");
        Ok(())
    }

    /// Every cluster gets a new intermediate and leaf; their pods change over while heartbeats go on.
    async fn rotate(&mut self, server: &mut Part) -> Result<()> {
        let began = Instant::now();
        let pause = Duration::from_secs(self.arguments.rotate_seconds) / u32::try_from(self.fleet.clusters.len())?;
        let mut fresh = Vec::new();
        for (name, sender) in &self.fleet.clusters {
            let credentials = self.installation.cluster(name)?.credentials()?;
            fresh.push(credentials.thumbprint().to_string());
            sender.send_replace(Arc::new(credentials));
            sleep(pause).await;
        }
        let all = self.arguments.sidecars;
        self.until("all certificates to be changed", |fleet| fleet.with_certificate(&fresh) == all).await?;
        let took = began.elapsed();
        line("all certificates changed after", &seconds(took), "≤ 600 s");
        let counts: Counts = server.ask()?;
        line("refused meanwhile", &format!("{:?}", counts.refusals), "none");
        line("sidecars that lost their line meanwhile", &format!("{:?}", self.fleet.problem()), "none");
        line("operator's memory after the change", &mib(server.resident_kib()?), "≤ 400 MiB");
        Ok(())
    }

    async fn restart(&self, server: Part, address: &str) -> Result<Part> {
        server.kill()?;
        self.until("all to notice", |fleet| fleet.connected() == 0).await?;
        let mut server = self.operator(address, false)?;
        server.hear()?;
        let (began, before) = (Instant::now(), server.processor_time()?);
        self.all_connected().await?;
        line("all back after the operator's restart", &seconds(began.elapsed()), "≤ 15 s");
        let used = server.processor_time()? - before;
        line("  processor time it took the operator", &seconds(used), "");
        let counts: Counts = server.ask()?;
        line("refused meanwhile", &format!("{:?}", counts.refusals), "none");
        Ok(server)
    }

    /// A new operator with the limits that ship, but for the one address the whole fleet has.
    async fn beside_hostile_tenants(&self, server: Part, address: &str) -> Result<()> {
        server.kill()?;
        self.until("all to notice", |fleet| fleet.connected() == 0).await?;
        let mut server = self.operator(address, true)?;
        server.hear()?;
        self.all_connected().await?;
        sleep(Duration::from_secs(self.arguments.settle_seconds)).await;
        let quiet = self.heartbeats("before the hostile tenants", &mut server).await?;
        let files = self.installation.cluster(hostile::CLUSTER)?;
        let mut hostile = Part::start("hostile", &Orders { files, address: address.to_owned(), per_address: true })?;
        hostile.hear()?;
        // Until then heartbeats tell of the time before.
        sleep(Duration::from_secs(self.arguments.settle_seconds)).await;
        let _: (Counts, Tried) = (server.ask()?, hostile.ask()?);
        let before = server.processor_time()?;
        let refusals = self.heartbeats("beside the hostile tenants", &mut server).await?;
        let used = server.processor_time()? - before;
        let tried: Tried = hostile.ask()?;
        line("  operator's memory", &mib(server.resident_kib()?), "≤ 400 MiB");
        line("  operator's processor", &percent(used.as_secs_f64() / self.arguments.seconds as f64), "");
        line("  sidecars connected", &self.fleet.connected().to_string(), &format!("all {}", self.arguments.sidecars));
        line("  they dialled, and got through", &format!("{}, {}", tried.connections, tried.established), "");
        line("  they called, and were heard", &format!("{}, {}", tried.calls, tried.accepted), "");
        println!("  refused meanwhile {refusals:?}; before {quiet:?}");
        hostile.kill()?;
        server.kill()
    }

    async fn heartbeats(&self, when: &str, server: &mut Part) -> Result<BTreeMap<String, usize>> {
        let _: Counts = server.ask()?;
        sleep(Duration::from_secs(self.arguments.seconds)).await;
        let mut counts: Counts = server.ask()?;
        println!("{when}:");
        line("  others' heartbeats in that time", &counts.round_trips.len().to_string(), "");
        let (half, most) = (percentile(&mut counts.round_trips, 50), percentile(&mut counts.round_trips, 99));
        line("  others' heartbeat there and back, P50", &format!("{half:.1?}"), "");
        line("  others' heartbeat there and back, P99", &format!("{most:.1?}"), "≤ 10 ms");
        Ok(counts.refusals)
    }

    async fn one_sidecar(&self, address: &str) -> Result<()> {
        let files = self.installation.cluster("one")?;
        let orders = Orders { files, address: address.to_owned(), per_address: false };
        let mut sidecar = Part::start("sidecar", &orders)?;
        sidecar.hear()?;
        let (began, before) = (Instant::now(), sidecar.processor_time()?);
        sleep(Duration::from_secs(self.arguments.seconds)).await;
        let used = (sidecar.processor_time()? - before).as_secs_f64() / began.elapsed().as_secs_f64();
        line(
            "a process with one sidecar's line: memory",
            &mib(sidecar.resident_kib()?),
            "≤ 10 MiB with all the sidecar does",
        );
        line("a process with one sidecar's line: processor", &percent(used), "≤ 0.2 % of a core");
        Ok(())
    }
}

/// Below the ports that the kernel gives to clients: while nobody listens, a client with the same port would connect to
/// itself and keep the operator from coming back.
fn free_address() -> Result<String> {
    let free = (21_000..30_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    Ok(format!("127.0.0.1:{}", free.context("no free port between 21000 and 30000")?))
}

fn line(what: &str, value: &str, promise: &str) {
    println!("{what:<46} {value:>12}  {promise}");
}

fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}
