# The pod sandbox's own process: one static binary in an otherwise empty image.
# shellcheck shell=bash

pause_inputs() { cat "$here/pause/pause.c"; }

pause_build() { # image, work folder
  need cc gcc
  step "compiling" "the static C library is missing (on Debian: apt-get install gcc libc6-dev)"
  mkdir "$2/rootfs"
  cc -static -Os -s -Wall -Wextra -Werror -o "$2/rootfs/pause" "$here/pause/pause.c"
  write_archive "$2" "$2/rootfs" '{"User":"65535:65535","Entrypoint":["/pause"]}' "$(reference_of "$1")"
}
