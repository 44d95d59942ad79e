# Our own programs, operator and sidecar: a binary put on the base by the repository's Dockerfile. The release one ships; tests and
# demos take the one of the profile quick.
# shellcheck shell=bash

# The program inside: sidecar-older is a sidecar too.
program_of() { echo "${1%-older}"; } # image

# The binary to package: the one given with --binary, else a copy of cargo's.
program_binary() { # image
  echo "${binary_override:-${CARGO_TARGET_DIR:-$repo/target}/$profile/images/valkey-$1}"
}

# Runs before the key is computed, because the binary is part of it.
program_prepare() { # image
  local name=$1
  if [[ -n $binary_override ]]; then
    [[ -f $binary_override ]] || die "--binary: there is no file $binary_override"
    return
  fi
  local crate options lock binary
  crate=$(program_of "$name")
  [[ -f $repo/crates/$crate/Cargo.toml ]] || die "$name: there is no crate crates/$crate; give a binary with --binary"
  options=(--profile "$profile")
  # What ships has only the features it asks for. For tests and demos all programs have those of the whole workspace, so that they share
  # their dependencies.
  if [[ $profile == quick ]]; then options+=(--workspace --bin valkey-operator --bin valkey-sidecar); else options+=(-p "$crate"); fi
  [[ $name != *-older ]] || options+=(--features "$crate/older")
  progress "$name" "compiling"
  binary=$(program_binary "$name")
  mkdir -p "$(dirname "$binary")"
  # Cargo puts sidecar and sidecar-older in the same place, so nobody may compile the other one before this one is copied.
  exec {lock}>"$(dirname "$binary")/lock"
  flock "$lock"
  (cd "$repo" && cargo build --quiet "${options[@]}" >&2) || die "$name: cargo build ${options[*]} failed; the compiler's messages are above"
  cp "$(dirname "$binary")/../valkey-$crate" "$binary.new"
  mv "$binary.new" "$binary"
  exec {lock}>&-
}

program_inputs() { # image
  cat "$repo/Dockerfile"
  sha256sum <"$(program_binary "$1")"
  if [[ $public_base == yes ]]; then echo "public base"; else image_key base; fi
}

program_build() { # image, work folder
  local name=$1 work=$2 program reference archive="" base
  program=$(program_of "$name")
  reference=$(reference_of "$name")
  install -D -m 0755 "$(program_binary "$name")" "$work/context/valkey-$program"
  if [[ $public_base == yes ]]; then
    base=$(sed -n 's/^ARG BASE_IMAGE=//p' "$repo/Dockerfile")
  else
    ensure_image base
    base=$(reference_of base)
    require_c_library "$work" "$archive"
  fi
  engine_build "$work" "$program" "$reference" "$base" "$archive"
}

# The newest version of the C library's interface that a file asks for or offers.
c_library_version() { grep -aoE 'GLIBC_2\.[0-9]+' "$1" | sort -uV | tail -n 1; }

# A binary linked on a newer system starts nowhere on an older base; better to hear of it here than in a crash loop.
require_c_library() { # work folder, base archive
  local wanted offered
  mkdir "$1/base"
  unpack_archive "$2" "$1/base"
  wanted=$(c_library_version "$(program_binary "$name")") || return 0 # a static binary asks for none
  offered=$(c_library_version "$(echo "$1"/base/usr/lib/*/libc.so.6)")
  [[ $(printf '%s\n' "$wanted" "$offered" | sort -V | tail -n 1) == "$offered" ]] ||
    die "$name: the binary needs $wanted and the base offers $offered; set BASE_SUITE in images/versions.env to this machine's Debian release"
}
