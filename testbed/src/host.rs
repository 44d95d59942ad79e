//! Whether this machine can carry a testbed, and installing the few tools that must come from its package manager.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

use crate::progress::Progress;
use crate::{apt, cgroups};

const INSTEAD: &str =
    "use another cluster instead: E2E_EXTERNAL=1 KUBECONFIG=<file of kind, k3d or a spare cluster> make test-e2e";

/// Tools that testbed, image recipes and tests call, and the Debian packages that have them.
const TOOLS: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("nsenter", "util-linux"),
    ("mkfs.xfs", "xfsprogs"),
    ("losetup", "mount"),
    ("gcc", "gcc libc6-dev"),
    ("buildah", "buildah"),
    ("jq", "jq"),
];

const WATCH_LIMIT: &str = "/proc/sys/fs/inotify/max_user_instances";
const WATCHES: u32 = 1024;

/// Refuses in one sentence what cannot work.
pub fn check() -> Result<()> {
    if !cfg!(target_os = "linux") {
        bail!("a testbed needs Linux; {INSTEAD}");
    }
    if !rustix::process::geteuid().is_root() {
        bail!("a testbed needs root (it makes network namespaces and mounts): run `sudo -E make …`, or {INSTEAD}");
    }
    cgroups::check().map_err(|reason| anyhow!("this machine cannot hold pods: {reason:#}; or {INSTEAD}"))
}

/// Kubelets watch many files, and a usual limit is reached by the second testbed: "too many open files".
pub fn raise_watch_limit(progress: &Progress) -> Result<()> {
    let limit: u32 = fs::read_to_string(WATCH_LIMIT)?.trim().parse()?;
    if limit < WATCHES {
        fs::write(WATCH_LIMIT, WATCHES.to_string())
            .with_context(|| format!("cannot raise {WATCH_LIMIT} from {limit} to {WATCHES}"))?;
        progress.say(&format!(
            "raised the machine's fs.inotify.max_user_instances from {limit} to {WATCHES}, until the next reboot"
        ));
    }
    Ok(())
}

/// Installs the tools that are missing.
pub fn install_tools(progress: &Progress) -> Result<()> {
    let lacking = TOOLS.iter().filter(|(tool, _)| !on_path(tool));
    let missing: Vec<&str> = lacking.flat_map(|(_, packages)| packages.split(' ')).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !on_path("apt-get") {
        bail!(
            "these packages are missing and this machine has no apt-get: {}; install them, or {INSTEAD}",
            missing.join(" ")
        );
    }
    if !rustix::process::geteuid().is_root() {
        bail!("these packages are missing: {}; install them, or run this as root once", missing.join(" "));
    }
    progress.say(&format!("installing {}", missing.join(", ")));
    apt::update()?;
    apt::install(&missing)
}

fn on_path(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin", "/sbin"]).any(|folder| Path::new(folder).join(tool).exists())
}
