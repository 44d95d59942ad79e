# How much room there is on disk.
# shellcheck shell=bash

existing() { # path: it, or its nearest parent that exists
  local path=$1
  until [[ -e $path ]]; do path=$(dirname "$path"); done
  echo "$path"
}

free_mb() { df -Pm "$(existing "$1")" | awk 'NR == 2 { print $4 }'; } # path
