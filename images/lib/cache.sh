# The image cache: <cache>/<image>-<key>/image.tar, where the key is the hash of everything that went into the image.
# An entry appears by rename when it is complete and carries its own checksum, so a killed build or a damaged file is never served.
# shellcheck shell=bash

cache=${XDG_CACHE_HOME:-$HOME/.cache}/valkey-operator/images

# Hash of an image's inputs: the shared code, its recipe, and the lines that the recipe's own `<recipe>_inputs` prints.
image_key() { # image
  local recipe
  recipe=$(recipe_of "$1")
  {
    printf 'image %s\nreference %s\narchitecture %s\n' "$1" "$(reference_of "$1")" "$(architecture)"
    cat "$here"/lib/{debian,archive,engine}.sh "$here/recipes/$recipe.sh"
    "${recipe}_inputs" "$1"
  } | sha256sum | cut -c1-16
}

entry_is_sound() { # entry
  [[ -f $1/image.tar && -f $1/sha256 ]] && (cd "$1" && sha256sum --check --status sha256)
}

# A key's sixteen digits: sidecar-* would be sidecar-older's entries too.
digits=????????????????

# Puts a finished image.tar in place of whatever was there, and drops the entries of older inputs.
store_entry() { # image, work folder, entry
  (cd "$2" && sha256sum image.tar >sha256)
  mkdir "$2.entry"
  mv "$2/image.tar" "$2/sha256" "$2.entry/"
  rm -rf "$3"
  mv -T "$2.entry" "$3"
  rm -rf "$2"
  find "$cache" -maxdepth 1 -type d -name "$1-$digits" ! -path "$3" -exec rm -rf {} +
}

# Makes the image unless the cache has it. Two runs of the same image wait for each other; others go on side by side.
ensure_image() { # image; the caller finds the result in `archive`
  local name=$1 key entry lock
  key=$(image_key "$name")
  entry=$cache/$name-$key
  archive=$entry/image.tar
  mkdir -p "$cache"
  exec {lock}>"$cache/$name.lock"
  flock "$lock"
  if [[ $no_cache == no ]] && entry_is_sound "$entry"; then
    progress "$name" "unchanged"
  else
    [[ ! -e $entry || $no_cache == yes ]] || progress "$name" "the cached archive is damaged; making it again"
    build_entry "$name" "$key" "$entry"
  fi
  exec {lock}>&-
}

# Runs the recipe in a subshell of its own, so that its failure is reported once and its working files go away.
build_entry() { # image, key, entry
  local name=$1 key=$2 entry=$3 log=$cache/$1.log work=$cache/$1-$2.work current_step=starting current_cause=unknown
  # shellcheck disable=SC2086 # it is a pattern
  rm -rf "$cache/$name"-$digits.work "$cache/$name"-$digits.work.entry
  mkdir "$work"
  : >"$log"
  (
    trap report_failure ERR
    trap 'rm -rf "$work" "$work.entry"' EXIT
    trap 'exit 130' INT TERM HUP
    exec >>"$log" 2>&1
    "$(recipe_of "$name")_build" "$name" "$work"
    store_entry "$name" "$work" "$entry"
  )
  progress "$name" "made, $(size_of "$entry/image.tar")"
}

size_of() { # file
  awk -v bytes="$(stat -c %s "$1")" 'BEGIN { printf "%.1f MB", bytes / 1e6 }'
}
