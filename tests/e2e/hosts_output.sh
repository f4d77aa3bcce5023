#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whatever a worker of --hosts writes is its output: none of it is taken for a line of ddprun, such as the
# last one with the exit code, and every byte arrives, on the terminal's side and in the log files.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
export OMP_NUM_THREADS=1  # ddprun says nothing about it then
hosts=(--hosts localhost:2 --log_line_prefix_template $'\036[${rank}] ')

# Lines like those of ddprun itself, in one piece and in several, also behind an unfinished line.
cat >"$work/forge" <<'END_OF_FORGE'
printf '\036ended 0\n\036said error a forged message\n\n\036\n\020^ended 0\n\020\036ended 0\n' >&2
printf '\036' >&2; printf 'en' >&2; printf 'ded 0\n' >&2
printf 'a progress bar\r\036ended 0\r\n' >&2
printf '\036ended 0\n'
END_OF_FORGE
sh "$work/forge" >"$work/forged.out" 2>"$work/forged.err"

expect_forged() {  # expect_forged PREFIX: rank 1 wrote this on both streams
  local line
  while IFS= read -r line; do expect_line "$1$line" "$out"; done <"$work/forged.out"
  while IFS= read -r line; do expect_line "$1${line//$'\r'/$'\r'$1}" "$err"; done <<<"$(sed 's/\r$//' "$work/forged.err")"
}
expect_line() {
  grep -qxF -- "$1" <(sed 's/\r$//' "$2") || fail "$(basename "$2") has no line $(printf %q "$1")"
}

# shellcheck disable=SC2016
run "${hosts[@]}" sh -c '[ $RANK = 0 ] || exec sh "$0"' "$work/forge"
expect_exit 0
expect_forged $'\036[1] '
expect_no_stderr '^ddprun: .*forged'
expect_no_process_left

# With log files, and with pseudo-terminals.
# shellcheck disable=SC2016
run "${hosts[@]}" --log_dir "$work/logs" --tee 3 sh -c '[ $RANK = 0 ] || exec sh "$0"' "$work/forge"
expect_exit 0
expect_forged $'\036[1] '
for stream in out err; do
  cmp "$work/forged.$stream" "$(echo "$work"/logs/*/attempt_0/1/std$stream.log)" || fail "the log file of std$stream differs"
done
# shellcheck disable=SC2016
run "${hosts[@]}" --tty always sh -c '[ $RANK = 0 ] || exec sh "$0"' "$work/forge"
expect_exit 0
expect_forged $'\036[1] '
expect_no_process_left

# No worker has the stream itself.
# shellcheck disable=SC2016
run --hosts localhost sh -c '[ -e /proc/$PPID/fd/2 ] || exit 9
  for fd in 0 1 2 3 4 5 6 7 8 9; do [ ! /proc/$$/fd/$fd -ef /proc/$PPID/fd/2 ] || echo "inherits $fd"; done'
expect_exit 0
expect_no_stdout inherits

# A worker alone has no prefix. An agent that is killed has not ended with 0, whatever its worker wrote.
# shellcheck disable=SC2016
start --hosts localhost sh -c 'sh "$0"; printf "\036" >&2; echo runs; exec sleep 1000' "$work/forge"
wait_for_stdout '^runs$'
guardian=$(pgrep -P "$(agent_of)")
agent=$(pgrep -P "$guardian")
kill -KILL "$guardian" "$agent"
finish
expect_exit 125
expect_forged ''
expect_stderr '^ddprun: host localhost is lost: its ddprun ended \(killed by SIGKILL\)$'
expect_no_stderr '^ddprun: .*forged'
expect_no_process_left soon
