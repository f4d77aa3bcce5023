#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGTERM and SIGUSR1 reach the program that handles them, once, whatever script has started it; its helper, which does
# not handle them, runs until the program has ended.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Saves its state with the help of the other one, which SIGTERM would end. It must not catch all signals, as a bash does
# that has used `read -t`. It starts no other command: a shell that waits for one gets a stop with its whole group. It
# writes nothing before the end: who reads its output would be awake, and taken for the program.
cat >"$work/program" <<'END'
folder=$(dirname "$0")
answered() { read -r _ <>"$folder/helps"; }
bash -c 'trap "echo >$0/helps" USR2; echo >"$0/helps"; while :; do sleep 600 & wait; done' "$folder" >/dev/null 2>&1 &
helper=$!
answered
trap 'got+=" USR1"; : >"$folder/noticed"' USR1
trap 'got+=" TERM"; stopped=1' TERM
: >"$folder/up"
until [ -n "$stopped" ]; do wait; done
[ -z "$FORWARDED" ] || read -r _ <>"$folder/forwarded"
kill -USR2 "$helper" && answered && echo "saved after$got"
exit 0
END
mkfifo "$work/helps" "$work/forwarded"
program=(bash "$work/program")
cat >"$work/capturing.py" <<'END'
import subprocess, sys
output, _ = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE).communicate()
sys.stdout.write(output.decode())
END

works() {  # works COMMAND...: it runs the program
  rm -f "$work/up" "$work/noticed"
  start --shutdown_timeout 3600 "$@"
  wait_until test -e "$work/up"
  kill -USR1 "$ddprun"
  wait_until test -e "$work/noticed"
  kill -TERM "$ddprun"
  finish
  expect_exit 143
  expect_stdout '^saved after USR1 TERM$'
  expect_stderr 'rank 0 ended with exit code 0$'
  expect_no_process_left
}

# shellcheck disable=SC2016  # the worker's shell
{
  works "${program[@]}"
  works sh -c '"$@"; exit' - "${program[@]}"
  works bash -c 'bash -c "\"\$@\"; exit" - "$@" | cat; exit "${PIPESTATUS[0]}"' - "${program[@]}"
  works bash -c 'setsid --wait "$@"; exit' - "${program[@]}"
  works timeout 3600 "${program[@]}"
  # A trap runs when the command has ended; the one of a command with & passes the signal on.
  works bash -c 'trap "echo its trap" TERM; "$@"; exit 0' - "${program[@]}"
  expect_stdout '^its trap$'
  FORWARDED=1 works bash -c 'trap "kill -TERM \$!; echo >\"\$0/forwarded\"" TERM; "$@" & wait; wait' "$work" "${program[@]}"
  if command -v python3 >/dev/null; then works python3 "$work/capturing.py" sh -c '"$@"; exit' - "${program[@]}"; fi

  # A script that begins another command when the first has ended is stopped, too.
  rm "$work/up"
  start --shutdown_timeout 3600 bash -c 'for turn in 1 2; do "$@"; echo "after turn $turn"; done' - \
    bash -c 'trap "exit 0" TERM; : >"$0/up"; while :; do sleep 600 & wait; done' "$work"
  wait_until test -e "$work/up"
  kill -TERM "$ddprun"
  finish
  expect_exit 143
  expect_stdout 'after turn 1'
  expect_no_process_left
}
