//! How a machine mounts its cgroups: version 1, version 2, or version 1 with version 2 beside it (hybrid).
//! The one place that knows, read from the text of a mount table; pure but for `of_this_machine`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// Kubelets and runc look for hierarchies here and right below, and nowhere else.
const ROOT: &str = "/sys/fs/cgroup";

/// Pods are held and limited with these; a machine without one of them cannot be a node.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchies {
    /// Several trees, each with its controllers.
    V1(Trees),
    /// The same, and a version 2 tree without controllers, in which runc and kubelets make cgroups as well.
    Hybrid(Trees, PathBuf),
    /// One tree with all controllers.
    V2(PathBuf),
}

/// The mount points of version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trees {
    pub all: Vec<PathBuf>,
    pub pids: PathBuf,
}

impl Hierarchies {
    pub fn of_this_machine() -> Result<Self> {
        let table = fs::read_to_string("/proc/self/mountinfo").context("cannot read the mount table")?;
        Self::read(&table)
    }

    /// From text in the form of `/proc/<pid>/mountinfo`.
    pub fn read(mount_table: &str) -> Result<Self> {
        let mounts = visible(mount_table);
        let version2 = |point: &Path| mounts.iter().any(|mount| mount.point == point && mount.kind == Kind::Version2);
        let root = Path::new(ROOT);
        if version2(root) {
            return Ok(Self::V2(root.to_owned()));
        }
        let trees = Trees::of(&mounts)?;
        let unified = root.join("unified");
        Ok(if version2(&unified) { Self::Hybrid(trees, unified) } else { Self::V1(trees) })
    }

    /// Every tree in which a testbed's cgroups are.
    pub fn trees(&self) -> Vec<&Path> {
        match self {
            Self::V1(trees) => trees.all.iter().map(PathBuf::as_path).collect(),
            Self::Hybrid(trees, unified) => trees.all.iter().chain([unified]).map(PathBuf::as_path).collect(),
            Self::V2(root) => vec![root],
        }
    }

    /// A tree in which every process of a pod is to be found.
    pub fn of_processes(&self) -> &Path {
        match self {
            Self::V1(trees) | Self::Hybrid(trees, _) => &trees.pids,
            Self::V2(root) => root,
        }
    }
}

impl Trees {
    fn of(mounts: &[Mount]) -> Result<Self> {
        let holds = |mount: &&Mount, wanted: &str| mount.controllers().any(|name| name == wanted);
        let version1: Vec<&Mount> = mounts.iter().filter(|mount| matches!(mount.kind, Kind::Version1 { .. })).collect();
        ensure!(!version1.is_empty(), "no cgroups are mounted at {ROOT}");
        require(|needed| version1.iter().any(|mount| holds(mount, needed)))?;
        let Some(pids) = version1.iter().find(|mount| holds(mount, "pids")) else { bail!("there is no pids tree") };
        Ok(Self { all: version1.iter().map(|mount| mount.point.clone()).collect(), pids: pids.point.clone() })
    }
}

/// Refuses a machine whose cgroups lack a controller that pods need.
pub fn require(has: impl Fn(&str) -> bool) -> Result<()> {
    let missing: Vec<&str> = NEEDED.into_iter().filter(|needed| !has(needed)).collect();
    ensure!(
        missing.is_empty(),
        "the cgroups at {ROOT} lack {}; the kernel may need cgroup_enable=<controller> on its command line",
        missing.join(", ")
    );
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Version1 { options: String },
    Version2,
    Other,
}

#[derive(Debug)]
struct Mount {
    point: PathBuf,
    kind: Kind,
}

impl Mount {
    /// `id parent device root point options… - type source options-of-the-file-system`
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.into();
        let mut words = after.split(' ');
        let kind = match words.next()? {
            "cgroup" => Kind::Version1 { options: words.nth(1)?.to_owned() },
            "cgroup2" => Kind::Version2,
            _ => Kind::Other,
        };
        Some(Self { point, kind })
    }

    /// A tree's controllers are among its file system's options.
    fn controllers(&self) -> impl Iterator<Item = &str> {
        let options = if let Kind::Version1 { options } = &self.kind { options } else { "" };
        options.split(',')
    }
}

/// What is mounted at or below the root; a later mount hides what was there before.
fn visible(mount_table: &str) -> Vec<Mount> {
    let all = mount_table.lines().filter_map(Mount::parse);
    all.filter(|mount| mount.point.starts_with(ROOT)).fold(Vec::new(), |mut seen, mount| {
        seen.retain(|earlier: &Mount| !earlier.point.starts_with(&mount.point));
        seen.push(mount);
        seen
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TMPFS: &str = "30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n";
    const CONTROLLERS: &str = "\
        31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:10 - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 / /sys/fs/cgroup/cpuset rw,relatime shared:11 - cgroup cgroup rw,cpuset\n\
        33 30 0:29 / /sys/fs/cgroup/memory rw,relatime shared:12 - cgroup cgroup rw,memory\n\
        34 30 0:30 / /sys/fs/cgroup/pids rw,relatime shared:13 - cgroup cgroup rw,pids\n\
        35 30 0:31 / /sys/fs/cgroup/systemd rw,relatime shared:14 - cgroup cgroup rw,xattr,name=systemd\n";
    const UNIFIED: &str = "36 30 0:32 / /sys/fs/cgroup/unified rw,relatime shared:15 - cgroup2 cgroup2 rw\n";
    const V2: &str = "37 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const REST: &str = "\
        1 0 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
        23 1 0:21 / /sys rw,nosuid shared:2 - sysfs sysfs rw\n";
    const ELSEWHERE: &str = "40 1 0:33 / /run/probe rw,relatime - cgroup2 none rw\n";

    fn trees() -> Trees {
        let all = ["cpu,cpuacct", "cpuset", "memory", "pids", "systemd"];
        let point = |name: &str| Path::new(ROOT).join(name);
        Trees { all: all.map(point).to_vec(), pids: point("pids") }
    }

    #[test]
    fn each_layout_is_told_from_the_others_by_the_mount_table() {
        let unified = Path::new(ROOT).join("unified");
        let version1 = Hierarchies::V1(trees());
        let hybrid = Hierarchies::Hybrid(trees(), unified);
        let version2 = Hierarchies::V2(ROOT.into());
        for (case, table, wanted) in [
            ("version 1", vec![REST, TMPFS, CONTROLLERS], &version1),
            ("version 2 at a place nobody looks at", vec![REST, TMPFS, CONTROLLERS, ELSEWHERE], &version1),
            ("both", vec![REST, TMPFS, CONTROLLERS, UNIFIED], &hybrid),
            ("both, version 2 mounted first", vec![REST, TMPFS, UNIFIED, CONTROLLERS], &hybrid),
            ("version 2", vec![REST, V2], &version2),
            ("version 2, and the root file system mounted last", vec![V2, REST], &version2),
            ("version 2 of a container over its host's", vec![REST, V2, V2], &version2),
            ("version 2 over version 1", vec![REST, TMPFS, CONTROLLERS, UNIFIED, V2], &version2),
            ("version 1 over version 2", vec![REST, V2, TMPFS, CONTROLLERS], &version1),
        ] {
            assert_eq!(&Hierarchies::read(&table.concat()).unwrap(), wanted, "{case}");
        }
    }

    #[test]
    fn a_machine_without_what_pods_need_is_refused_by_name() {
        let without = |name: &str| -> String {
            CONTROLLERS.lines().filter(|line| !line.contains(name)).map(|line| format!("{line}\n")).collect()
        };
        for (table, named) in [
            (REST.to_owned(), "no cgroups are mounted"),
            ([REST, TMPFS].concat(), "no cgroups are mounted"),
            ([REST, TMPFS, UNIFIED].concat(), "no cgroups are mounted"),
            ([REST, TMPFS, &without("memory")].concat(), "lack memory;"),
            ([REST, TMPFS, UNIFIED, &without("pids")].concat(), "lack pids;"),
            ([REST, TMPFS, &without("cpu")].concat(), "lack cpu, cpuset;"),
        ] {
            let error = Hierarchies::read(&table).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn cgroups_are_made_in_every_tree_and_processes_looked_for_in_one() {
        let unified = Path::new(ROOT).join("unified");
        let hybrid = Hierarchies::Hybrid(trees(), unified.clone());
        assert_eq!(hybrid.trees().len(), 6);
        assert!(hybrid.trees().contains(&unified.as_path()));
        assert_eq!(hybrid.of_processes(), Path::new("/sys/fs/cgroup/pids"));
        let version2 = Hierarchies::V2(ROOT.into());
        assert_eq!((version2.trees(), version2.of_processes()), (vec![Path::new(ROOT)], Path::new(ROOT)));
    }
}
