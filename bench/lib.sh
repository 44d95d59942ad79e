# What the benches on a testbed share: the testbed itself, and the memory of processes in it.
# shellcheck shell=bash
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export TESTBED_NAME=bench OPERATOR_NAMESPACE=valkey-operator-system IMAGE_PROFILE=release
# Errors say themselves where they come from.
export RUST_LIB_BACKTRACE=${RUST_LIB_BACKTRACE:-0}
testbed=${CARGO_TARGET_DIR:-$repo/target}/debug/testbed

say() { echo "[$SECONDS s] $*" >&2; }

# Starts a testbed that goes away with this script, with these images and the operator of this working tree.
prepare() { # nodes, image…
  [[ -x $testbed ]] || { echo "build the testbed's driver first: cargo build --workspace --bins" >&2; exit 1; }
  trap '"$testbed" down' EXIT
  "$testbed" up --nodes "$1" --with helm
  shift
  "$repo/images/build" "$@" | cut -d' ' -f2 | xargs "$testbed" load
  KUBECONFIG=$("$testbed" kubeconfig)
  export KUBECONFIG PATH=${KUBECONFIG%/*}/bin:$PATH
  "$repo/e2e/install-operator" >&2
  kubectl wait --for=condition=Available deployment/valkey-operator -n "$OPERATOR_NAMESPACE" --timeout=60s >&2
}

# Resident KiB of each process of that name inside the testbed, one a line.
resident() { # program
  local pid
  for pid in $(pgrep -x "$1" || true); do
    grep -q "/valkey-testbed-$TESTBED_NAME/" "/proc/$pid/cgroup" 2>/dev/null || continue
    awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status"
  done
}

row() { # what, program, limit in MiB
  resident "$2" | sort -n | tail -n 1 | print_row "$1" "$3"
}

# Of several processes the one that holds least.
least_row() { # what, program, limit in MiB
  resident "$2" | sort -n | head -n 1 | print_row "$1" "$3"
}

print_row() { # what, limit in MiB; KiB on the input
  awk -v what="$1" -v limit="$2" '{ printf "%-58s %6.1f MiB   limit %s MiB\n", what, $1 / 1024, limit }'
}
