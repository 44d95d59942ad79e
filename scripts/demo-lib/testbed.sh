# The demo on the testbed: a real Kubernetes of processes on this machine. It is built from sources, so most of the first run is
# compiling; what can go on beside something else does.
# shellcheck shell=bash

export TESTBED_NAME=${TESTBED_NAME:-main} IMAGE_PROFILE=quick
state=/var/lib/valkey-testbed/$TESTBED_NAME
target=${CARGO_TARGET_DIR:-$repo/target}
# All that the demo compiles has one profile and the features of the whole workspace, so that no dependency is compiled twice.
export TESTBED_BIN=$target/quick/testbed
began=""
as_root='sudo env "PATH=$PATH" make'

check_machine() {
  [[ $(uname -s) == Linux ]] || die "it needs Linux: use a Linux machine, or a virtual one"
  ((EUID == 0)) || die "it needs root, to make network namespaces and mounts: run it as root ($as_root demo), or where docker and kind are: make demo KIND=1"
  check_rust
  check_go
  check_room
}

check_rust() {
  local wanted found
  wanted=$(sed -nE 's/^rust-version = "(.*)"/\1/p' Cargo.toml)
  command -v cargo >/dev/null || die "Rust is missing: install Rust $wanted or newer from https://rustup.rs and have cargo on PATH (with sudo: $as_root demo)"
  found=$(cargo --version 2>&1) || die "cargo does not run, $(tail -n 1 <<<"$found"): install Rust $wanted or newer from https://rustup.rs"
  is_at_least "$wanted" "$(cut -d' ' -f2 <<<"$found")" || die "Rust $wanted or newer is needed and this is $found: run rustup update, or install it from https://rustup.rs"
}

check_go() {
  local wanted found
  wanted=$(sed -nE 's/^go (.*)/\1/p' testbed/parts/go.mod)
  command -v go >/dev/null || die "Go is missing: install Go $wanted or newer from https://go.dev/dl and have go on PATH (with sudo: $as_root demo)"
  # Asked inside the module, an older Go fetches the one it needs.
  found=$(cd testbed/parts && go env GOVERSION 2>&1) || die "Go $wanted or newer is needed, and cannot be had here, $(tail -n 1 <<<"$found"): install it from https://go.dev/dl"
  is_at_least "$wanted" "${found#go}" || die "Go $wanted or newer is needed and this is $found: install it from https://go.dev/dl"
}

is_at_least() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; } # wanted version, found version

# What a run writes where, in MB; what is there already is not written again.
room_needed() {
  [[ -d $state ]] || echo "2000 $state"
  [[ -x $target/quick/valkey-operator ]] || printf '%s\n' "1300 $target" "400 ${CARGO_HOME:-$HOME/.cargo}"
  compgen -G "$cache/parts/kube-*" >/dev/null ||
    printf '%s\n' "3200 $(go env GOCACHE)" "1000 $(go env GOMODCACHE)" "500 ${TMPDIR:-/tmp}" "700 $cache"
}

check_room() {
  local mb path disk free
  declare -A wanted=() paths=()
  while read -r mb path; do
    disk=$(stat -c %d "$(existing "$path")")
    wanted[$disk]=$((${wanted[$disk]:-0} + mb))
    paths[$disk]+="${paths[$disk]:+, }$path"
  done < <(room_needed)
  for disk in "${!wanted[@]}"; do
    free=$(free_mb "${paths[$disk]%%,*}")
    ((free >= wanted[$disk])) ||
      die "$free MB are free and ${wanted[$disk]} MB are needed for ${paths[$disk]}: make room, or set XDG_CACHE_HOME, GOPATH, CARGO_HOME and CARGO_TARGET_DIR to folders on a larger disk"
  done
}

# A compiler comes before everything: without it there is no driver, which installs the other tools.
install_compiler() {
  local install=(apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300)
  command -v apt-get >/dev/null || die "a C compiler is missing: install gcc and the C library's development files"
  { apt-get update -qq && "${install[@]}" --download-only gcc libc6-dev; } >"$logs/apt.log" 2>&1 ||
    die "a C compiler is missing and cannot be downloaded: check the network and /etc/apt; all that apt-get said is in $logs/apt.log"
  # Cut short while it unpacks, dpkg would have to be repaired by hand.
  trap '' TERM
  "${install[@]}" gcc libc6-dev >"$logs/apt.log" 2>&1 ||
    die "a C compiler cannot be installed: install gcc and libc6-dev by hand; all that apt-get said is in $logs/apt.log"
}

compile() { # log, program…
  local log=$1
  shift
  CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 \
    cargo build --locked --profile quick --workspace "${@/#/--bin=}" >"$log" 2>&1 || explain_cargo "$log"
}

explain_cargo() { # log
  local said
  said=$(tr '\r' '\n' <"$1" | grep -vE '^ *(Building|Compiling|Downloading|Downloaded|Blocking|Updating) |^ *$')
  if grep -qE 'No space left on device|os error 28' <<<"$said" || (($(free_mb "$target") < 50)); then
    die "cannot compile, the disk is full: make room for $target and ${CARGO_HOME:-$HOME/.cargo}"
  elif grep -qiE '(failed to|unable to|could not) (download|update|resolve|connect)|network failure' <<<"$said"; then
    die "cannot compile, crates cannot be downloaded: check the network, HTTPS_PROXY, or ${CARGO_HOME:-$HOME/.cargo}/config.toml; all that cargo said is in $1"
  fi
  tail -n 30 <<<"$said" >&2
  die "cannot compile; all that cargo said is in $1"
}

# Only to have them when they are needed: what fails here is said there.
download_modules() { (cd testbed/parts && go list -deps ./... tool) >"$logs/modules.log" 2>&1 || true; }

start_testbed() {
  "$TESTBED_BIN" up --with helm
  images/build valkey-9.1 | cut -d' ' -f2 | xargs "$TESTBED_BIN" load
}

provide() {
  step_log["driver of the testbed"]=$logs/driver.log
  step_log["operator and sidecar"]=$logs/programs.log
  command -v cc >/dev/null || run_step "C compiler" install_compiler
  start_step "Go modules" download_modules
  run_step "driver of the testbed" compile "$logs/driver.log" testbed
  start_step "operator and sidecar" compile "$logs/programs.log" testbed-agent valkey-operator valkey-sidecar
  run_step "packages of Debian" "$TESTBED_BIN" tools
  start_step "image of Valkey" images/build base valkey-9.1 >/dev/null
  run_step "Kubernetes, CoreDNS and Helm" "$TESTBED_BIN" prepare --with helm
  await_step "Go modules"
  await_step "image of Valkey"
  await_step "operator and sidecar"
  "$TESTBED_BIN" kubeconfig >/dev/null 2>&1 || began=yes
  run_step "start of three nodes" start_testbed
  run_step "images and Helm chart" env OPERATOR_REPLICAS= e2e/install-operator
  export KUBECONFIG=$state/kubeconfig
  PATH=$state/bin:$PATH
}

undo() {
  [[ -z $began || ! -d $state ]] || "$TESTBED_BIN" down >&2
}

check_down() { ((EUID == 0)) || die "taking it down needs root: run it as root ($as_root demo-down)"; }

take_down() {
  [[ -d $state ]] || { echo "there is no demo"; return; }
  # The testbed has a copy of its driver, which is there even when nothing is built here.
  if [[ -x $TESTBED_BIN ]]; then "$TESTBED_BIN" down; else "$state/bin/testbed" down; fi
}

take_down_in_words() { if [[ $TESTBED_NAME == main ]]; then echo "make demo-down"; else echo "TESTBED_NAME=$TESTBED_NAME make demo-down"; fi; }

environment() { echo "export KUBECONFIG=$state/kubeconfig PATH=$state/bin:\$PATH"; }

fail_primary_in_words() { echo "the process of a primary dies"; }

fail_primary() { echo "testbed --name $TESTBED_NAME pod kill default/$(primary)"; }
