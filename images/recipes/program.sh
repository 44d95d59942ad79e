# Our own programs, operator and sidecar: a release binary put on the base by the repository's Dockerfile.
# shellcheck shell=bash

# The binary to package: the one given with --binary, else cargo's, which cargo brings up to date itself.
program_binary() { # image
  echo "${binary_override:-${CARGO_TARGET_DIR:-$repo/target}/release/valkey-$1}"
}

# Runs before the key is computed, because the binary is part of it.
program_prepare() { # image
  local name=$1
  if [[ -n $binary_override ]]; then
    [[ -f $binary_override ]] || die "--binary: there is no file $binary_override"
    return
  fi
  [[ -f $repo/crates/$name/Cargo.toml ]] || die "$name: there is no crate crates/$name; give a binary with --binary"
  progress "$name" "compiling"
  (cd "$repo" && cargo build --quiet --release -p "$name" >&2) ||
    die "$name: cargo build --release -p $name failed; the compiler's messages are above"
}

program_inputs() { # image
  cat "$repo/Dockerfile"
  sha256sum <"$(program_binary "$1")"
  if [[ $public_base == yes ]]; then echo "public base"; else image_key base; fi
}

program_build() { # image, work folder
  local name=$1 work=$2 reference archive="" base
  reference=$(reference_of "$name")
  install -D -m 0755 "$(program_binary "$name")" "$work/context/valkey-$name"
  if [[ $public_base == yes ]]; then
    base=$(sed -n 's/^ARG BASE_IMAGE=//p' "$repo/Dockerfile")
  else
    ensure_image base
    base=$(reference_of base)
    require_c_library "$work" "$archive"
  fi
  engine_build "$work" "$name" "$reference" "$base" "$archive"
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
