# Lines with the time since the start, on standard error. Programs that a script calls count from the same start: images/build and
# the testbed's driver read PROGRESS_SINCE too.
# shellcheck shell=bash

export PROGRESS_SINCE=${PROGRESS_SINCE:-$EPOCHSECONDS}

say() { # sentence
  local elapsed=$((EPOCHSECONDS - PROGRESS_SINCE))
  printf '[%02d:%02d] %s\n' $((elapsed / 60)) $((elapsed % 60)) "$1" >&2
}

duration() { # seconds
  if (($1 < 60)); then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi
}
