# Progress and failure messages. Standard output belongs to the result lines; people read standard error, kept as descriptor 3
# because the builds send theirs to a log.
# shellcheck shell=bash

exec 3>&2
# shellcheck source=scripts/progress.sh
source "$repo/scripts/progress.sh"
# shellcheck source=scripts/disk.sh
source "$repo/scripts/disk.sh"

# Exit status of a failure that has been explained already; whoever sees it passes it on in silence.
explained=77

progress() { say "$1: $2" 2>&3; } # image, sentence

die() { # sentence
  printf 'images/build: %s\n' "$1" >&3
  exit "$explained"
}

# Announces the next step of the image being built; its likely cause is what the failure message will say.
step() { # sentence, likely cause of a failure
  current_step=$1
  current_cause=$2
  progress "$name" "$current_step"
}

# A failure in a build: names the step, the cause, the log and the log's last words.
report_failure() {
  local status=$?
  trap - ERR
  if ((status != explained)); then
    (($(free_mb "$cache") > 50)) || current_cause="the disk is full: make room for $cache, or set XDG_CACHE_HOME to a folder on another one"
    printf 'images/build: %s: failed while %s\n  likely cause: %s\n  log: %s\n' "$name" "$current_step" "$current_cause" "$log" >&3
    tail -n 5 "$log" | sed 's/^/  | /' >&3
  fi
  exit "$explained"
}

need() { # program, package
  command -v "$1" >/dev/null || die "$name: the program $1 is missing; install the package $2 (on Debian: apt-get install $2)"
}
