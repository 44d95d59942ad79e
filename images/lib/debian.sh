# Root file systems from Debian packages: apt resolves and verifies, dpkg-deb unpacks, nothing is installed and no root is needed.
# Maintainer scripts never run, so what they would need (adduser, systemd, debconf …) is declared present instead of fetched.
# shellcheck shell=bash

# Only maintainer scripts want these; declared present, they stay out of the images.
scripts_only=(adduser awk debconf debianutils init-system-helpers openssl systemd)

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# As images call it; a machine that is no Debian can still put programs on a public base.
architecture() {
  dpkg --print-architecture 2>/dev/null && return
  case $(uname -m) in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) uname -m ;; esac
}

# The repository that this machine's own apt uses for its release (or for that release's security updates).
configured_mirror() { # "" or "-security"
  local codename suites
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  suites="($codename|stable|testing|unstable|sid)$1"
  apt-get update --print-uris | sed -nE "s#^'(.*)/dists/$suites/InRelease'.*#\1#p" | head -n 1
}

# Where packages come from: the environment first, then apt's configuration on a Debian machine.
debian_mirror() {
  local mirror=${DEBIAN_MIRROR:-}
  if [[ -z $mirror ]] && grep -qx 'ID=debian' /etc/os-release; then mirror=$(configured_mirror ""); fi
  [[ -n $mirror ]] || die "$name: no Debian mirror is configured in apt's sources; set DEBIAN_MIRROR to the address of one"
  echo "$mirror"
}

# apt's sources for a release. sid has no security repository: fixes land in it directly.
write_sources() { # suite, folder
  local mirror security=""
  mirror=$(debian_mirror)
  printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$1" >"$2/sources.list"
  [[ $1 == sid ]] && return
  [[ -n ${DEBIAN_MIRROR:-} ]] || security=$(configured_mirror -security)
  [[ -z $security ]] || printf 'deb [signed-by=%s] %s %s-security main\n' "$keyring" "$security" "$1" >>"$2/sources.list"
}

# A private apt state. It is read after the machine's own configuration (proxies stay in force) and drops the machine's hooks.
write_apt_configuration() { # suite, folder
  local provided
  mkdir -p "$2/state/lists/partial" "$2/cache" "$2/debs/partial"
  provided=$(printf ', %s (= 9999)' "${scripts_only[@]}")
  printf 'Package: declared\nStatus: install ok installed\nArchitecture: all\nVersion: 1\nMaintainer: none\nProvides: %s\nDescription: none\n' \
    "${provided#, }" >"$2/status"
  cat >"$2/apt.conf" <<CONFIGURATION
#clear APT::Update;
#clear DPkg;
Dir::State "$2/state";
Dir::State::status "$2/status";
Dir::Cache "$2/cache";
Dir::Cache::archives "$2/debs";
Dir::Etc::SourceList "$2/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
APT::Install-Recommends "false";
APT::Sandbox::User "";
APT::Keep-Downloaded-Packages "true";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Debug::NoLocking "true";
CONFIGURATION
  # The index of sid is renewed several times a day; a mirror that lags is past its date without being wrong.
  [[ $1 != sid ]] || echo 'Acquire::Check-Valid-Until "false";' >>"$2/apt.conf"
}

# Downloads packages and what they depend on into <folder>/debs.
fetch_packages() { # suite, folder, package…
  local suite=$1 folder=$2
  shift 2
  need apt-get apt
  need dpkg-deb dpkg
  [[ -f $keyring ]] || die "$name: $keyring is missing; install the package debian-archive-keyring"
  mkdir -p "$folder"
  write_sources "$suite" "$folder"
  write_apt_configuration "$suite" "$folder"
  step "reading the package index of $suite" "the Debian mirror cannot be reached, or apt's sources on this machine are broken"
  apt-get --config-file "$folder/apt.conf" -q --error-on=any update
  step "downloading packages of $suite" "the mirror dropped the connection, or $suite no longer has one of: $*"
  apt-get --config-file "$folder/apt.conf" -q -y --download-only install "$@"
}

# The upstream version of a downloaded package: no epoch, repack suffix or Debian revision.
upstream_version() { # folder, package
  dpkg-deb --field "$1/debs/$2"_*.deb Version | sed -E 's/^[0-9]+://; s/-[^-]*$//; s/[+~].*$//'
}

# A tag must tell the truth, so a release that moved on stops the build instead of changing what the tag means.
require_version() { # folder, package, wanted version or the numbers it begins with, variable to change
  local found
  found=$(upstream_version "$1" "$2")
  [[ $found == "$3" || $found == "$3".* ]] || die "$name: $2 is at version $found in this Debian release, not $3; change the tag of $4 in images/versions.env to match"
}

# Unpacks <folder>/debs into a root file system with a merged /usr, and notes each package where vulnerability scanners look.
unpack_packages() { # folder, root file system
  local deb package
  step "unpacking" "the disk is full"
  mkdir -p "$2"/{usr/{bin,sbin,lib,lib64,local/bin},etc,tmp,var/lib/dpkg/status.d}
  ln -s usr/bin usr/sbin usr/lib usr/lib64 "$2/"
  chmod 1777 "$2/tmp"
  for deb in "$1"/debs/*.deb; do
    package=$(dpkg-deb --field "$deb" Package)
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$2" --keep-directory-symlink --no-same-owner --same-permissions
    dpkg-deb --field "$deb" >"$2/var/lib/dpkg/status.d/$package"
  done
}

# Drops what a container never reads. Copyright files stay: the licences ask for them.
trim() { # root file system
  local rootfs=${1:?} share=${1:?}/usr/share
  rm -rf "${share:?}"/{man,info,locale,lintian,bug,bash-completion,base-files,menu,gdb,polkit-1} \
    "${rootfs:?}"/usr/lib/{systemd,sysusers.d,tmpfiles.d,init} \
    "${rootfs:?}"/usr/lib/*-linux-gnu/{gconv,engines-3,audit} \
    "${rootfs:?}"/etc/{init.d,default,logrotate.d,cron.*,skel,update-motd.d} \
    "${rootfs:?}"/{boot,home,media,mnt,opt,srv,usr/games} \
    "${rootfs:?}"/var/{backups,cache,local,log,mail,opt,spool,lock}
  find "$share/doc" -type f ! -name copyright -delete
  find "$share" -depth -type d -empty -delete
}

# The accounts file of an image: root, nobody and the one user it runs as.
write_accounts() { # root file system, user, id, home
  printf 'root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n%s:x:%s:%s:%s:%s:/usr/sbin/nologin\n' \
    "$2" "$3" "$3" "$2" "$4" >"$1/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n%s:x:%s:\n' "$2" "$3" >"$1/etc/group"
  printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$1/etc/nsswitch.conf"
}

# Runs a program of the root file system with the libraries of the root file system, without being root.
run_unpacked() { # root file system, program, argument…
  local rootfs=$1 program=$2 libraries loader
  shift 2
  libraries=$(echo "$rootfs"/usr/lib/*-linux-gnu)
  loader=$(echo "$libraries"/ld-linux-*.so.*)
  "$loader" --library-path "$libraries" "$rootfs$program" "$@"
}
