//! `up` and `down`, seen from outside: one process (`unshare`, which becomes init) holds all of a testbed's namespaces.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use crate::cache::remove_dir;
use crate::command::{ip, run};
use crate::init::BootSettings;
use crate::layout::{self, Dir, MARKER, Testbed};
use crate::parts::{self, Programs};
use crate::progress::Progress;
use crate::{cgroups, host, images, interrupt, journal, patience, pki, space};

/// What a testbed with a few small clusters on it takes, in megabytes.
const ROOM: u64 = 2000;

pub fn up(name: &str, nodes: u8, with: &[String], progress: &Progress) -> Result<()> {
    host::check()?;
    let dir = Dir::of(name);
    let began = Arc::new(AtomicBool::new(false));
    clean_up_when_interrupted(&dir, &began)?;
    if alive(name) && journal::is_ready(&dir) {
        same_shape(name, nodes)?;
        progress.say(&format!("testbed {name} is up already"));
    } else {
        let (programs, settings) = obtain(progress)?;
        host::raise_watch_limit(progress)?;
        begin(name, nodes, &programs, &settings, &began)?;
        attend(&dir, progress)?;
    }
    for part in with {
        parts::add_optional(part, &dir, progress)?;
    }
    Ok(())
}

/// Installs, builds and unpacks all that `up` needs; a second time it is all there.
pub fn prepare(with: &[String], progress: &Progress) -> Result<()> {
    obtain(progress)?;
    with.iter().try_for_each(|part| parts::optional(part, progress).map(drop))
}

fn obtain(progress: &Progress) -> Result<(Programs, BootSettings)> {
    host::install_tools(progress)?;
    let programs = Programs::obtain(progress)?;
    let settings = BootSettings { pause: images::pause()?, cni_plugins: programs.cni_plugins.display().to_string() };
    Ok((programs, settings))
}

/// Waits for the boot. When it fails its processes end, and its logs stay.
fn attend(dir: &Dir, progress: &Progress) -> Result<()> {
    let outcome = journal::follow(dir, patience::seconds(180), || alive(dir.name()), |step| progress.say(step));
    let cause = if space::is_exhausted(dir.path()) { "the disk is full: make room and try again; " } else { "" };
    if outcome.is_err() {
        end(dir)?;
    }
    outcome.with_context(|| {
        format!(
            "{cause}testbed {} did not come up; its logs are in {} until the next `up` or `down`",
            dir.name(),
            dir.text("logs")
        )
    })
}

/// Starts a new testbed, or joins one that another `up` is starting.
fn begin(name: &str, nodes: u8, programs: &Programs, settings: &BootSettings, began: &AtomicBool) -> Result<()> {
    let _lock = lock()?;
    if alive(name) {
        return same_shape(name, nodes);
    }
    began.store(true, Ordering::SeqCst);
    wipe(&Dir::of(name))?;
    space::require(Path::new(layout::ROOT), ROOM)?;
    let testbed = Testbed::new(name, layout::free_index()?, nodes);
    furnish(&testbed, programs, settings)?;
    spawn(&testbed)
}

fn furnish(testbed: &Testbed, programs: &Programs, settings: &BootSettings) -> Result<()> {
    let dir = testbed.dir();
    for folder in ["bin", "logs"] {
        fs::create_dir_all(dir.file(folder))?;
    }
    testbed.write()?;
    fs::write(dir.file("boot.json"), serde_json::to_string(settings)?)?;
    programs.link(&dir)?;
    // Copies, so that a new build does not change what runs.
    let own = std::env::current_exe()?;
    for name in ["testbed", "testbed-agent"] {
        let built = own.with_file_name(name);
        fs::copy(&built, dir.binary(name))
            .with_context(|| format!("{} is not built; run `make testbed-up`", built.display()))?;
    }
    pki::create(testbed)?;
    cgroups::create(testbed)
}

fn spawn(testbed: &Testbed) -> Result<()> {
    let dir = testbed.dir();
    let log = OpenOptions::new().create(true).append(true).open(dir.log("init"))?;
    let mut command = Command::new("setsid");
    command.args(["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.arg(dir.binary("testbed")).args(["--name", &testbed.name, "init"]).env(MARKER, &testbed.name);
    command.env(patience::VARIABLE, patience::factor().to_string());
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).current_dir("/");
    let mut child = command.spawn().context("cannot start the testbed's init")?;
    // Reaped if it ends while this process lives; after that it is the machine's.
    thread::spawn(move || child.wait());
    Ok(())
}

fn same_shape(name: &str, nodes: u8) -> Result<()> {
    let has = Testbed::read(name)?.nodes.len();
    ensure!(
        has == usize::from(nodes),
        "testbed {name} is up with {has} nodes, not {nodes}; run `testbed --name {name} down` first, or give --nodes {has}"
    );
    Ok(())
}

pub fn down(name: &str, progress: &Progress) -> Result<()> {
    host::check()?;
    let _lock = lock()?;
    let dir = Dir::of(name);
    if !dir.path().exists() && !alive(name) {
        progress.say(&format!("there is no testbed {name}"));
        return Ok(());
    }
    wipe(&dir)?;
    progress.say(&format!("testbed {name} is gone"));
    Ok(())
}

/// Ends all processes of a testbed and with them its namespaces, mounts, links and routes; then its cgroups.
fn end(dir: &Dir) -> Result<()> {
    let mut quiet_looks = 0;
    await_gone("its processes", || {
        let living = keepers(dir.name());
        for pid in living.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        // One look can miss a process that is just becoming another program.
        quiet_looks = if living.is_empty() { quiet_looks + 1 } else { 0 };
        quiet_looks == 5
    })?;
    if let Ok(testbed) = Testbed::read(dir.name()) {
        let link = Path::new("/sys/class/net").join(testbed.host_link());
        await_gone("its network link", || {
            !link.exists() || ip(&format!("link del {}", testbed.host_link())).is_ok() && !link.exists()
        })?;
    }
    await_gone("its loop devices", || !loop_devices(dir))?;
    cgroups::remove(&dir.cgroup())
}

fn wipe(dir: &Dir) -> Result<()> {
    end(dir).with_context(|| format!("testbed {} does not go away", dir.name()))?;
    remove_dir(dir.path())
}

/// The kernel takes namespaces apart behind the scenes, so their things go a moment after their last process.
fn await_gone(what: &str, mut gone: impl FnMut() -> bool) -> Result<()> {
    let limit = patience::seconds(10);
    let deadline = Instant::now() + limit;
    while !gone() {
        if Instant::now() > deadline {
            bail!("{what} are still there after {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn loop_devices(dir: &Dir) -> bool {
    let inside = format!("{}/", dir.path().display());
    run("losetup", &["--list", "--noheadings", "--output", "BACK-FILE"]).is_ok_and(|list| list.contains(&inside))
}

pub fn alive(name: &str) -> bool {
    !keepers(name).is_empty()
}

/// Processes that carry the testbed's marker: unshare, init and supervisor. No file of pids can be stale or missing this way.
fn keepers(name: &str) -> Vec<i32> {
    let marker = format!("{MARKER}={name}");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let carries = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes())
    };
    pids.filter(carries).collect()
}

/// Making and removing testbeds go one at a time on a machine; a killed driver's lock goes with it.
fn lock() -> Result<File> {
    fs::create_dir_all(layout::ROOT)?;
    let folder = File::open(layout::ROOT)?;
    flock(&folder, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {}", layout::ROOT))?;
    Ok(folder)
}

/// Ctrl-C while a testbed is starting takes it down again.
fn clean_up_when_interrupted(dir: &Dir, began: &Arc<AtomicBool>) -> Result<()> {
    let (dir, began) = (dir.clone(), Arc::clone(began));
    interrupt::clean_up_with(move || if began.load(Ordering::SeqCst) { wipe(&dir) } else { Ok(()) })
}
