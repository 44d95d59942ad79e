# Checks with a sentence each, for test scripts: images/test and charts/test source this.
# shellcheck shell=bash
scratch=$(mktemp -d)
passed=0 failed=0

check() { # sentence, command…
  local sentence=$1
  shift
  if "$@" >"$scratch/output" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $sentence"
  else
    failed=$((failed + 1))
    echo "FAILED  $sentence"
    tail -n 40 "$scratch/output" | sed 's/^/        | /'
  fi
}

is() { # wanted, found
  [[ $1 == "$2" ]] || { echo "wanted: $1"; echo "found:  $2"; return 1; }
}

# The closing line, and whether all is well.
finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0))
}
