# Steps of the demo: several at once, each in a process group of its own, so that Ctrl-C reaches the script alone and the script ends
# them in order. The first that fails ends the others. Those that still run say so every half minute.
# shellcheck shell=bash

declare -A running=() since=() took=() step_log=()
steps=() broken="" last_sign=$EPOCHSECONDS

start_step() { # name, command…
  say "$1"
  since[$1]=$EPOCHSECONDS
  steps+=("$1")
  set -m
  (
    # What a step leaves running, such as a testbed, must not keep the lock.
    exec {lock}>&-
    trap - INT HUP EXIT
    # With a trap the shell waits for the program that it runs, which is ended too and may have to clean up.
    trap 'exit 143' TERM
    "${@:2}"
  ) </dev/null &
  set +m
  running[$1]=$!
}

# Waits for a step. Any other that ends meanwhile is noted too.
await_step() { # name
  local step
  while [[ -n ${running[$1]:-} ]]; do
    for step in "${!running[@]}"; do kill -0 "${running[$step]}" 2>/dev/null || note_end "$step"; done
    ((EPOCHSECONDS - last_sign < 30)) || give_sign
    sleep 0.2
  done
}

note_end() { # name
  local status=0
  wait "${running[$1]}" || status=$?
  unset "running[$1]"
  took[$1]=$((EPOCHSECONDS - since[$1]))
  ((status == 0)) || { broken=$1 && exit 1; }
}

give_sign() {
  local step at
  last_sign=$EPOCHSECONDS
  for step in "${!running[@]}"; do
    ((EPOCHSECONDS - since[$step] >= 20)) || continue
    at=$(last_line "${step_log[$step]:-}")
    say "still at it after $(duration $((EPOCHSECONDS - since[$step]))): $step${at:+ ($at)}"
  done
}

# A progress bar is written over again and again.
last_line() { # log or nothing
  [[ ! -f $1 ]] || tail -c 2000 "$1" | tr '\r' '\n' | sed -E 's/^ +//; s/ +$//; s/ \[[=> ]*\]//' | grep . | tail -n 1 | cut -c1-80 || true
}

run_step() { # name, command…
  start_step "$@"
  await_step "$1"
}

# Ends what still runs and waits for it: half installed packages would be worse than waiting. What hangs is killed in the end.
stop_steps() {
  local pid
  for pid in "${running[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
  for pid in "${running[@]}"; do
    timeout 120 tail --pid="$pid" -f /dev/null || kill -KILL -- "-$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  running=()
}

times() {
  local step
  for step in "${steps[@]}"; do printf '  %-32s %s\n' "$step" "$(duration "${took[$step]}")"; done
}

interrupted() {
  trap '' INT TERM HUP
  trap - EXIT
  stop_steps
  undo
  echo "make demo: interrupted after $(duration $((EPOCHSECONDS - PROGRESS_SINCE))); nothing runs any more, and the next one goes on from what was built" >&2
  exit 130
}

# On every way out but the good one. What went wrong has been said by whom it went wrong for.
failed() {
  local state
  trap '' INT TERM HUP
  stop_steps
  state="${broken:-it} failed after $(duration $((EPOCHSECONDS - PROGRESS_SINCE))), see above"
  if [[ ${DEMO_KEEP:-} == 1 ]]; then
    echo "make demo: $state; all is left as it is, take it down with make demo-down" >&2
  else
    undo
    echo "make demo: $state; nothing runs any more, and the next one goes on from what was built" >&2
  fi
}
