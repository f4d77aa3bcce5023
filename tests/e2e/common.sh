# SPDX-License-Identifier: Apache-2.0
# Every end-to-end test sources this. One test is one script that shows one behaviour of the real
# binary:
#
#   run OPTIONS... PROGRAM ARGS...    runs ddprun to its end
#   start OPTIONS... PROGRAM ARGS...  starts it; $ddprun is its pid, $events its --events file
#   wait_for_event NAME [TEXT]        until the events file has that event in a line with TEXT
#   only_later_events                 from now on it looks at those that come after this moment
#   wait_for_stdout REGEX  wait_for_stderr REGEX
#   wait_until COMMAND...             until COMMAND succeeds
#   finish                            waits for what `start` started
#   expect_exit CODE
#   expect_stdout REGEX  expect_stderr REGEX  expect_no_stdout REGEX  expect_no_stderr REGEX
#                                     the first two wait while ddprun runs: its lines and events have no order
#   expect_no_process_left            each test ends with it; without it the test fails
#
# After run and finish: $code is the exit code, $out and $err are files with its output, $work is an
# empty folder of this test. Nothing is timed: a deadline only ends a test that hangs.
#
# A job of several nodes has several ddpruns, each with a name of the test's choice. All of the above
# applies to the one that was named last:
#
#   on NAME COMMAND...                COMMAND for that one: `on b start ...`, `on b expect_exit 0`.
#                                     "$out" and the like need a line of their own after it
#   agent_of                          prints the pid of its agent, as $ddprun is the guardian
#   worker_of [RANK]                  prints the pid of its latest worker, or of that rank
#   same_report NAME...               their reports, from the last "failed first" on, are the same
#
# Tests of several nodes have their endpoint at $here, and use the short time-outs ${quick[@]}.
#
#   on_terminal <<END                 types on a terminal, by a script in Python: see terminal.py
#
#   skip REASON                       ends the test, which is reported as skipped
#
# DDPRUN is the binary, DDPRUN_BIN the folder of all built programs. By hand:
#   DDPRUN=build/bin/ddprun DDPRUN_BIN=build/bin bash tests/e2e/exit_codes.sh
# shellcheck shell=bash
set -euo pipefail
: "${DDPRUN:?the path of ddprun}" "${DDPRUN_BIN:?the folder of the built programs}"

export DDPRUN_LOG_FORMAT=plain  # stderr is a file here, and its lines are compared
deadline=${DDPRUN_TEST_DEADLINE:-60}  # seconds
work=$(mktemp -d)
checked=''
at_exit=()                       # functions that clean up after a test
declare -A pids codes watchdogs  # of each ddprun, by name
declare -A passed_events         # by name: how many lines of its events are not looked at
declare -A command_prefix        # by name, set by tests: a command before `ddprun`

on() {
  name=$1
  out=$work/.$name.stdout err=$work/.$name.stderr events=$work/.$name.events
  [ -e "$events" ] || : >"$out" >"$err" >"$events"
  ddprun=${pids[$name]:-} code=${codes[$name]:-}
  "${@:2}"
}
on only true

# An address of this host that no other running test uses: its ports are free.
here=127.$((1 + $$ / 65536 % 250)).$(($$ / 256 % 256)).$(($$ % 256))

# shellcheck disable=SC2034  # for tests
quick=(--heartbeat_interval 0.5 --lease 4)  # also kept by a healthy node on a busy machine

# Every process of a test inherits this variable, also in another session, with another parent, or
# when its parent is dead. The script itself does not have it.
mark=DDPRUN_TEST_ID=$$.$(cat /proc/sys/kernel/random/uuid)

survivors() {  # pids with the mark; a zombie has no environment
  grep -lzsxF -- "$mark" /proc/[0-9]*/environ | cut -d/ -f3 || true
}

fail() {
  local each
  {
    echo "FAILED: $name: $*"
    for each in "${!pids[@]}"; do
      on "$each" true
      echo "=== $name, exit code: ${code:-none yet}"
      echo "--- stdout:" && tail -c 4000 "$out"
      echo "--- stderr:" && tail -c 4000 "$err"
      if [ -s "$events" ]; then echo "--- events:" && tail -c 4000 "$events"; fi
    done
  } >&2
  exit 1
}

skip() {
  echo "SKIPPED: $*" >&2
  exit 77
}

clean_up() {
  local status=$? pid undo
  for pid in "${watchdogs[@]}"; do kill -KILL -- "-$pid" 2>/dev/null || true; done
  if [ $status = 0 ] && [ -z "$checked" ]; then
    echo "FAILED: the test does not end with expect_no_process_left" >&2
    status=1
  fi
  for pid in $(survivors); do kill -KILL "$pid" 2>/dev/null || true; done
  for undo in "${at_exit[@]}"; do "$undo" || true; done
  rm -rf "$work"
  exit $status
}
trap clean_up EXIT

start() {
  local command=()
  checked='' code=''
  case $1 in serve | doctor | launch) command=("$1") && shift ;; esac
  : >"$out" >"$err" >"$events"
  # Job control gives each its own process group and leaves SIGINT alone, as an interactive shell
  # does; without it a background command starts with SIGINT ignored.
  set -m
  # shellcheck disable=SC2086
  env "$mark" ${command_prefix[$name]:-} "$DDPRUN" "${command[@]}" --events "$events" "$@" \
    <&0 >"$out" 2>"$err" &
  ddprun=$!
  { sleep "$deadline" || true; touch "$work/.hung"; kill -KILL "$ddprun"; } </dev/null &>/dev/null &
  watchdogs[$name]=$!
  set +m
  pids[$name]=$ddprun codes[$name]='' passed_events[$name]=0
}

wait_for_ddprun() {
  code=0
  wait "$ddprun" 2>/dev/null || code=$?
}

finish() {
  wait_for_ddprun
  # A wait also ends when ddprun was stopped, though it was continued a moment before. `wait -f` does not, but bash 5.2
  # looks then at memory that it has freed, and may wait without end for a process that was killed.
  while [ "$code" -gt 128 ] && kill -0 "$ddprun" 2>/dev/null; do sleep 0.02 && wait_for_ddprun; done
  codes[$name]=$code
  kill -KILL -- "-${watchdogs[$name]}" 2>/dev/null || true
  wait "${watchdogs[$name]}" 2>/dev/null || true  # or the shell reports its end
  unset "watchdogs[$name]"
  [ ! -e "$work/.hung" ] || fail "ddprun did not end within $deadline s"
}

run() {
  start "$@"
  finish
}

agent_of() {
  pgrep -P "$ddprun"
}

# An agent writes events in a thread: what a worker prints may be there before the event of its start.
worker_of() {
  wait_until has_started "${1:-}" || return
  grep -F '"event":"worker_started"' "$events" | grep -F "\"rank\":${1:-}" |
    sed -n '$s/.*"pid":\([0-9]*\)}.*/\1/p'
}

same_report() {
  local each
  for each in "$@"; do
    on "$each" expect_stderr 'failed first'
    tac "$err" | sed '/failed first/q' | sed -E 's/^ddprun: \[[^]]*\] /ddprun: /' >"$work/.report.$each"
    cmp -s "$work/.report.$1" "$work/.report.$each" ||
      fail "not the report of $1: $(diff "$work/.report.$1" "$work/.report.$each")"
  done
}

wait_until() {
  local end=$((SECONDS + deadline))
  until "$@"; do
    if [ -z "$code" ] && ! kill -0 "$ddprun" 2>/dev/null; then  # its last action may fulfil it
      "$@" || fail "ddprun has ended without: $*"
      return 0
    fi
    [ $SECONDS -lt $end ] || fail "timed out after $deadline s waiting for: $*"
    sleep 0.02
  done
}

wait_for_event() {
  wait_until has_event "$@"
}

has_started() {
  grep -F '"event":"worker_started"' "$events" | grep -F "\"rank\":$1" >/dev/null
}

only_later_events() {
  passed_events[$name]=$(wc -l <"$events")
}

wait_for_stdout() {
  wait_until grep -qE -- "$1" "$out"
}

wait_for_stderr() {
  wait_until grep -qE -- "$1" "$err"
}

has_event() {  # has_event NAME [TEXT]
  tail -n "+$((${passed_events[$name]:-0} + 1))" "$events" | grep -F "\"event\":\"$1\"" |
    grep -F -- "${2:-}" >/dev/null
}

expect_exit() {
  [ "$code" = "$1" ] || fail "exit code $code, expected $1"
}

expect_stdout() {
  [ -n "$code" ] || wait_for_stdout "$1"
  grep -qE -- "$1" "$out" || fail "stdout has no line like: $1"
}

expect_stderr() {
  [ -n "$code" ] || wait_for_stderr "$1"
  grep -qE -- "$1" "$err" || fail "stderr has no line like: $1"
}

expect_no_stdout() {
  ! grep -qE -- "$1" "$out" || fail "stdout has a line like: $1"
}

expect_no_stderr() {
  ! grep -qE -- "$1" "$err" || fail "stderr has a line like: $1"
}

on_terminal() {
  command -v python3 >/dev/null || skip "there is no python3"
  env "$mark" DDPRUN_TEST_MARK="$mark" python3 "$(dirname "${BASH_SOURCE[0]}")/terminal.py" >"$out" ||
    fail "on the terminal: $(cat "$out")"
}

# When ddprun has ended no process may be left. Only if it could not clean up itself (it was killed
# with SIGKILL) the others have until the deadline: expect_no_process_left soon
expect_no_process_left() {
  local left pid
  if [ "${1:-}" = soon ]; then
    wait_until no_survivors
  fi
  left=$(survivors)
  if [ -n "$left" ]; then
    for pid in $left; do
      echo "left: $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null || true)" >&2
    done
    fail "processes are left"
  fi
  checked=1
}

no_survivors() {
  [ -z "$(survivors)" ]
}

exec </dev/null
