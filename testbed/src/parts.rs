//! The programs a testbed is made of and how each is got: Go parts are built from the one module in `testbed/parts`,
//! Debian's are unpacked from their packages into the cache, so that nothing of them is installed (or started) on the host.
//! Versions are pinned in the module's go.mod; Debian's are those of the machine's release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use crate::apt;
use crate::cache::{self, Key};
use crate::command::{finish, finish_into_log, run};
use crate::layout::Dir;
use crate::progress::Progress;

/// A program built from the Go module in `testbed/parts`.
struct GoPart {
    name: &'static str,
    package: &'static str,
    /// Names under which the one binary is called.
    programs: &'static [&'static str],
    takes: &'static str,
}

const KUBE: GoPart = GoPart {
    name: "kube",
    package: "./kube",
    programs: &["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"],
    takes: "about 5 min",
};
const COREDNS: GoPart =
    GoPart { name: "coredns", package: "./coredns", programs: &["coredns"], takes: "10 s after kube" };

/// Parts that a testbed can do without; each is built the first time it is asked for by name.
const OPTIONAL: &[GoPart] =
    &[GoPart { name: "helm", package: "helm.sh/helm/v4/cmd/helm", programs: &["helm"], takes: "20 s after kube" }];

/// Debian packages that are unpacked, not installed: their services would start on the host.
const DEBIAN: &[&str] = &["etcd-server", "containerd", "runc", "containernetworking-plugins"];

pub const OPTIONAL_NAMES: [&str; 1] = ["helm"];

/// The linker drops what debuggers need, so the compiler need not write it: an eighth less to do.
const COMPILER_FLAGS: &str = "-gcflags=all=-dwarf=false";

/// All programs of a testbed, as folders to link `bin/` from.
pub struct Programs {
    binaries: Vec<(String, PathBuf)>,
    pub cni_plugins: PathBuf,
}

impl Programs {
    pub fn obtain(progress: &Progress) -> Result<Self> {
        let debian = unpack_debian(progress)?;
        let mut binaries = Vec::new();
        for part in [&KUBE, &COREDNS] {
            binaries.extend(build_go(part, progress)?);
        }
        for name in ["etcd", "containerd", "containerd-shim-runc-v2", "ctr"] {
            binaries.push((name.to_owned(), debian.join("usr/bin").join(name)));
        }
        binaries.push(("runc".to_owned(), debian.join("usr/sbin/runc")));
        Ok(Self { binaries, cni_plugins: debian.join("usr/lib/cni") })
    }

    /// Links every program into the testbed's own `bin/`.
    pub fn link(&self, dir: &Dir) -> Result<()> {
        self.binaries.iter().try_for_each(|(name, target)| link(dir, name, target))
    }
}

/// Makes an optional part ready: names and paths of its programs.
pub fn optional(name: &str, progress: &Progress) -> Result<Vec<(String, PathBuf)>> {
    let part = OPTIONAL.iter().find(|part| part.name == name);
    let part =
        part.with_context(|| format!("there is no optional part {name:?}; there is: {}", OPTIONAL_NAMES.join(", ")))?;
    build_go(part, progress)
}

/// Makes an optional part ready and links it into the testbed's `bin/`.
pub fn add_optional(name: &str, dir: &Dir, progress: &Progress) -> Result<()> {
    optional(name, progress)?.iter().try_for_each(|(name, target)| link(dir, name, target))
}

fn link(dir: &Dir, name: &str, target: &Path) -> Result<()> {
    let link = dir.file(format!("bin/{name}"));
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(target, &link).with_context(|| format!("cannot link {}", link.display()))
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("parts")
}

fn build_go(part: &GoPart, progress: &Progress) -> Result<Vec<(String, PathBuf)>> {
    let flags = linker_flags(part)?;
    let key = go_key(part, &flags)?;
    let folder = cache::entry("parts", part.name, &key, |fresh| {
        progress.say(&format!("building {} from Go modules, once ({} on 2 cores)", part.name, part.takes));
        compile(part, &flags, fresh)
    })?;
    Ok(part.programs.iter().map(|name| ((*name).to_owned(), folder.join(name))).collect())
}

fn compile(part: &GoPart, flags: &str, fresh: &Path) -> Result<()> {
    let log = cache::root().join("parts").join(format!("{}.log", part.name));
    let mut go = Command::new("go");
    go.current_dir(source()).args(["build", "-trimpath", "-buildvcs=false", COMPILER_FLAGS, "-ldflags", flags, "-o"]);
    go.arg(fresh.join(part.name)).arg(part.package);
    // An interrupted Go leaves its temporary files, and this folder is removed then.
    go.env("GOTMPDIR", fresh);
    finish_into_log(&mut go, &log).map_err(|error| match remedy(&fs::read_to_string(&log).unwrap_or_default()) {
        Some(remedy) => anyhow!("cannot build {}: {remedy}; all that Go said is in {}", part.name, log.display()),
        None => error,
    })?;
    for program in part.programs.iter().filter(|program| **program != part.name) {
        std::os::unix::fs::symlink(part.name, fresh.join(program))?;
    }
    Ok(())
}

/// What to do about the usual reasons for which Go cannot build.
fn remedy(said: &str) -> Option<&'static str> {
    const UNREACHABLE: [&str; 6] =
        ["dial tcp", "no such host", "proxyconnect", "i/o timeout", "TLS handshake timeout", "connection reset"];
    if said.contains("no space left on device") {
        Some("the disk is full: make room where GOCACHE, GOMODCACHE and TMPDIR are, about 6 GB")
    } else if UNREACHABLE.iter().any(|sign| said.contains(sign)) {
        Some("Go modules cannot be downloaded: check the network, or set GOPROXY or HTTPS_PROXY")
    } else if said.contains("requires go >=") {
        Some("this Go is too old: install Go 1.26 or newer")
    } else {
        None
    }
}

fn go_key(part: &GoPart, flags: &str) -> Result<String> {
    let mut go = Command::new("go");
    // Inside the module an older Go answers for the one that it fetches.
    go.current_dir(source()).args(["env", "GOVERSION", "GOARCH"]);
    let version = finish(&mut go).context("Go 1.26 or newer is needed to build the testbed's parts")?;
    let mut key = Key::default().text(&version).text(part.package).text(COMPILER_FLAGS).text(flags);
    let main = source().join(part.name).join("main.go");
    for file in [source().join("go.mod"), source().join("go.sum"), main].iter().filter(|file| file.exists()) {
        key = key.file(file)?;
    }
    Ok(key.finish())
}

/// Kubernetes' programs say which version they are only when the linker is told.
fn linker_flags(part: &GoPart) -> Result<String> {
    let mut flags = "-s -w".to_owned();
    if part.name == KUBE.name {
        let file = source().join("go.mod");
        let text = fs::read_to_string(&file).with_context(|| {
            format!(
                "cannot read {}: this program was built in another checkout; touch testbed/src/*.rs and build it again with make, \
                 or give each checkout a CARGO_TARGET_DIR of its own",
                file.display()
            )
        })?;
        let version = kubernetes_version(&text)?;
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let set = |name: &str, value: &str| format!(" -X k8s.io/component-base/version.{name}={value}");
        flags += &[set("gitVersion", &version), set("gitMajor", major), set("gitMinor", minor)].concat();
    }
    Ok(flags)
}

fn kubernetes_version(go_mod: &str) -> Result<String> {
    let line = go_mod.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    line.map(str::to_owned).context("testbed/parts/go.mod does not require k8s.io/kubernetes")
}

fn unpack_debian(progress: &Progress) -> Result<PathBuf> {
    let key = DEBIAN.iter().fold(Key::default(), |key, package| key.text(package)).text(&debian_release()?).finish();
    cache::entry("parts", "debian", &key, |fresh| {
        progress.say(&format!("unpacking {} from Debian packages", DEBIAN.join(", ")));
        // A machine that never updated its package lists finds nothing; one that did needs no second update.
        if apt::download(DEBIAN, fresh).is_err() {
            apt::update()?;
            apt::download(DEBIAN, fresh)?;
        }
        for package in fs::read_dir(fresh)?.flatten().filter(|file| file.path().extension().is_some_and(|e| e == "deb"))
        {
            run("dpkg-deb", &["-x".as_ref(), package.path().as_os_str(), fresh.as_os_str()])?;
            fs::remove_file(package.path())?;
        }
        Ok(())
    })
}

fn debian_release() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    Ok(text.lines().filter(|line| line.starts_with("ID=") || line.starts_with("VERSION_ID=")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubernetes_version_is_read_from_go_mod() {
        let go_mod = "module x\nrequire (\n\tk8s.io/kubectl v0.0.0\n\tk8s.io/kubernetes v1.36.3\n)\n";
        assert_eq!(kubernetes_version(go_mod).unwrap(), "v1.36.3");
        assert!(kubernetes_version("module x\n").is_err());
    }

    #[test]
    fn usual_reasons_of_a_failed_build_come_with_a_remedy() {
        let offline = r#"go: k8s.io/api@v0.36.3: Get "https://proxy/k8s.io/api": dial tcp: lookup proxy: no such host"#;
        assert!(remedy(offline).unwrap().contains("check the network"));
        assert!(remedy("write $WORK/b7: no space left on device").unwrap().contains("disk is full"));
        assert_eq!(remedy("main.go:7:2: undefined: x"), None);
    }

    #[test]
    fn every_optional_part_is_named_in_the_help() {
        assert_eq!(OPTIONAL.iter().map(|part| part.name).collect::<Vec<_>>(), OPTIONAL_NAMES);
    }
}
