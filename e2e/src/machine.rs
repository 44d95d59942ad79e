//! What a testbed could leave behind on a machine, as sets of named things that can be compared before and after. IO in `snapshot`,
//! the comparison is pure. Used by the life-cycle tests to prove that `down` leaves nothing.

use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

/// Kinds of things (`mounts`, `links`, …), each a set of descriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    pub things: BTreeMap<&'static str, BTreeSet<String>>,
}

/// Folders in which parts of a cluster keep files or sockets.
const FOLDERS: [&str; 10] = [
    "/run",
    "/run/netns",
    "/run/containerd",
    "/var/lib/valkey-testbed",
    "/var/log/containers",
    "/var/log/pods",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/etc/cni/net.d",
    "/etc/netns",
];

/// Programs of a cluster, by the name the kernel keeps. Dead ones that nobody reaped have nothing else to be known by.
const PROGRAMS: [&str; 9] =
    ["etcd", "kubelet", "kube-", "coredns", "containerd", "runc", "pause", "testbed", "iptables"];

/// The variable that the processes which keep a testbed alive carry, with its name.
const MARKER: &str = "VALKEY_TESTBED_INIT=";

impl Machine {
    pub fn snapshot() -> Result<Self> {
        let things = BTreeMap::from([
            ("processes", processes()?),
            ("mounts", lines_of_file("/proc/self/mountinfo", mount)?),
            ("loop devices", loop_devices()),
            ("links", lines_of("ip", &["-o", "link"], link)?),
            ("network namespaces", lines_of("ip", &["netns", "list"], first_word)?),
            ("addresses", lines_of("ip", &["-o", "address"], address)?),
            ("routes", lines_of("ip", &["route", "show", "table", "all"], whole)?),
            ("routing rules", lines_of("ip", &["rule"], whole)?),
            ("iptables rules", lines_of("iptables-save", &[], rule)?),
            ("cgroups", cgroups()),
            ("unix sockets", lines_of_file("/proc/net/unix", unix_socket)?),
            ("files", files()),
        ]);
        Ok(Self { things })
    }

    /// What is here and was not in `before`, as lines; empty when nothing is left.
    pub fn beyond(&self, before: &Self) -> Vec<String> {
        let nothing = BTreeSet::new();
        let news = self.things.iter().flat_map(|(kind, now)| {
            let then = before.things.get(kind).unwrap_or(&nothing);
            now.difference(then).map(move |thing| format!("{kind}: {thing}"))
        });
        news.collect()
    }

    /// Things that tell of a testbed by its name; for finding it, not for proving its absence.
    pub fn mentioning(&self, word: &str) -> Vec<&String> {
        self.things.values().flatten().filter(|thing| thing.contains(word)).collect()
    }
}

fn lines_of(program: &str, arguments: &[&str], describe: fn(&str) -> Option<String>) -> Result<BTreeSet<String>> {
    let output = Command::new(program).args(arguments).output().with_context(|| format!("run {program}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(describe).collect())
}

fn lines_of_file(path: &str, describe: fn(&str) -> Option<String>) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    Ok(text.lines().filter_map(describe).collect())
}

fn whole(line: &str) -> Option<String> {
    Some(line.trim().to_owned())
}

fn first_word(line: &str) -> Option<String> {
    line.split_whitespace().next().map(str::to_owned)
}

/// Mount point and source; ids and peer groups change by themselves.
fn mount(line: &str) -> Option<String> {
    let (fields, source) = line.split_once(" - ")?;
    Some(format!("{} {source}", fields.split_whitespace().nth(4)?))
}

/// Number and name, without flags and counters that change by themselves.
fn link(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    Some(format!("{} {}", words.next()?, words.next()?))
}

fn address(line: &str) -> Option<String> {
    let words: Vec<_> = line.split_whitespace().take(4).collect();
    Some(words.join(" "))
}

/// Rules and chains, without packet counters and the dates in comments.
fn rule(line: &str) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    Some(line.split_once(" [").map_or(line, |(rule, _)| rule).to_owned())
}

/// Sockets where services keep them. Others, and ports, cannot outlive their process, and processes are looked at anyway.
fn unix_socket(line: &str) -> Option<String> {
    let path = line.split_whitespace().nth(7)?;
    ["/run/", "/var/"].iter().any(|place| path.starts_with(place)).then(|| path.to_owned())
}

/// Loop devices that have a file behind them.
fn loop_devices() -> BTreeSet<String> {
    let backing = |name: &str| {
        let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
        Some(format!("{name} {}", file.trim()))
    };
    names_in(Path::new("/sys/block")).iter().filter_map(|name| backing(name)).collect()
}

fn files() -> BTreeSet<String> {
    let inside = |folder: &str| {
        names_in(Path::new(folder)).into_iter().map(move |name| format!("{folder}/{name}")).collect::<Vec<_>>()
    };
    FOLDERS.iter().flat_map(|folder| inside(folder)).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Three levels below each hierarchy: deeper ones cannot outlive their parents. Those of systemd come and go with sessions and timers.
fn cgroups() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    descend(Path::new("/sys/fs/cgroup"), 3, &mut found);
    found
}

fn descend(folder: &Path, levels: usize, found: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink());
    for path in folders.filter(|path| !is_of_systemd(path)) {
        found.insert(path.display().to_string());
        if levels > 1 {
            descend(&path, levels - 1, found);
        }
    }
}

fn is_of_systemd(cgroup: &Path) -> bool {
    cgroup.extension().is_some_and(|kind| ["slice", "scope", "service"].iter().any(|unit| kind == *unit))
}

/// Processes of a cluster: by program, or because they live in another network or mount namespace than we do.
fn processes() -> Result<BTreeSet<String>> {
    let ours = namespaces(Path::new("/proc/self"));
    let mut found = BTreeSet::new();
    for pid in names_in(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()) {
        let folder = Path::new("/proc").join(&pid);
        let Ok(program) = fs::read_to_string(folder.join("comm")) else { continue };
        let elsewhere = namespaces(&folder).is_some_and(|theirs| Some(theirs) != ours);
        if elsewhere || PROGRAMS.iter().any(|name| program.starts_with(name)) {
            let owner = testbed_of(&pid).map_or_else(String::new, |name| format!(" of testbed {name}"));
            found.insert(format!("{pid} {}{owner}", program.trim()));
        }
    }
    Ok(found)
}

/// The testbed whose marker the process or one of its ancestors carries.
fn testbed_of(pid: &str) -> Option<String> {
    let folder = Path::new("/proc").join(pid);
    let environment = fs::read(folder.join("environ")).unwrap_or_default();
    let variables = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    if let Some(name) = variables.into_iter().find_map(|variable| variable.strip_prefix(MARKER).map(str::to_owned)) {
        return Some(name);
    }
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim();
    if parent == "0" { None } else { testbed_of(parent) }
}

/// `None` for a process that is gone or dead.
fn namespaces(process: &Path) -> Option<(String, String)> {
    let read = |kind: &str| fs::read_link(process.join("ns").join(kind)).ok().map(|link| link.display().to_string());
    Some((read("net")?, read("mnt")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(things: &[(&'static str, &[&str])]) -> Machine {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Machine { things: things.iter().map(|(kind, names)| (*kind, set(names))).collect() }
    }

    #[test]
    fn what_was_there_before_is_not_left_behind() {
        let before = machine(&[("links", &["lo", "eth0"]), ("mounts", &["/"])]);
        let after = machine(&[("links", &["lo", "eth0", "veth9"]), ("mounts", &[]), ("cgroups", &["x"])]);
        assert_eq!(after.beyond(&before), ["cgroups: x", "links: veth9"]);
        assert!(before.beyond(&before).is_empty());
    }

    #[test]
    fn a_mount_is_known_by_point_and_source_not_by_its_number() {
        let line = "4242 27 0:55 / /run/x rw,nosuid shared:7 - tmpfs tmpfs rw,size=10k";
        assert_eq!(mount(line).as_deref(), Some("/run/x tmpfs tmpfs rw,size=10k"));
    }

    #[test]
    fn counters_and_comments_are_no_part_of_a_rule() {
        assert_eq!(rule(":FORWARD ACCEPT [12:900]").as_deref(), Some(":FORWARD ACCEPT"));
        assert_eq!(rule("# Generated at noon"), None);
    }

    #[test]
    fn cgroups_of_systemd_are_known_by_their_kind_of_unit() {
        assert!(is_of_systemd(Path::new("/sys/fs/cgroup/user.slice")));
        assert!(!is_of_systemd(Path::new("/sys/fs/cgroup/valkey-testbed-e2e-gone")));
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let machine = Machine::snapshot().unwrap();
        assert!(machine.mentioning("lo").iter().any(|thing| thing.contains("127.0.0.1")), "{machine:?}");
    }
}
