#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A running job is asked through its socket: what it does, what a rank has written, and to stop.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Jobs are named by their pid: others of this user may run here.
export XDG_RUNTIME_DIR=$work/run
mkdir -m 700 "$XDG_RUNTIME_DIR"
sockets=$XDG_RUNTIME_DIR/ddprun

ask() {  # ask CODE VERB...: its output is in $asked
  local expected=$1 got=0
  asked=$("$DDPRUN" "${@:2}" 2>&1) || got=$?
  [ $got = "$expected" ] || fail "ddprun ${*:2}: exit code $got, expected $expected: $asked"
}

expect_asked() {
  grep -qE -- "$1" <<<"$asked" || fail "no line like '$1' in: $asked"
}

ask 1 status no-such-job
expect_asked "^ddprun: no "
ask 2 status --sideways
ask 2 logs
ask 0 status --help
expect_asked 'ddprun stop \[JOB\]'

# A worker may ask first of all.
for name_of_job in early-{1..5}; do
  run --rdzv_id "$name_of_job" "$(realpath "$DDPRUN")" status "$name_of_job"
  expect_exit 0
  expect_stdout "^job $name_of_job: running for "
done

# shellcheck disable=SC2016
worker='echo "here is rank $RANK"; echo "and its stderr" >&2; trap "exit 7" TERM; while :; do sleep 600 & wait; done'
start --nproc_per_node 3 --rdzv_id first bash -c "$worker"
for rank in 0 1 2; do wait_for_stdout "here is rank $rank"; done
wait_until test -S "$sockets/first.$ddprun.sock"
[ "$(stat -c %a "$sockets")" = 700 ] || fail "others may enter the folder of sockets"

# An agent that has no processor for seconds is shown as one that does not answer.
shows() {  # shows REGEX VERB...
  ask 0 "${@:2}" && grep -qE -- "$1" <<<"$asked"
}
wait_until shows "^$ddprun +running +3 .* first: bash -c " ls
wait_until shows "^2 +$(hostname) +running " status "$ddprun"
expect_asked '^job first: running for .*, 3 ranks on 1 node, round 0, 0 of 0 restarts: bash -c '
ask 0 status --json "$ddprun"
expect_asked '^\{"job":"first",'
kill -STOP "$(worker_of 1)"
worst() { ask 0 status "$ddprun" && [[ $(sed -n 3p <<<"$asked") =~ ^1\ .*\ stopped ]]; }
wait_until worst
kill -CONT "$(worker_of 1)"

has_both() { ask 0 logs 2 "$ddprun" && [ "$(sort <<<"$asked")" = $'and its stderr\nhere is rank 2' ]; }
wait_until has_both
ask 1 logs 3 "$ddprun"
expect_asked '^ddprun: there is no rank 3: this job has ranks 0 to 2$'
is_named() { ask 1 logs 1 other && grep -q "^ddprun: no job 'other' runs here; there is .*$ddprun (first)" <<<"$asked"; }
wait_until is_named
if command -v curl >/dev/null; then
  [[ $(curl -s --unix-socket "$sockets/first.$ddprun.sock" http://x/logs/0) =~ 'here is rank 0' ]] ||
    fail "curl gets no answer"
fi

# Without an id it has the name of its program, which no other job here has.
ln -s "$(type -P bash)" "$work/bash-$$"
on nameless start "$work/bash-$$" -c 'exec sleep 600'
wait_until shows "^$ddprun +running +1 .* bash-$$: .*bash-$$ -c " ls
ask 0 status "bash-$$"
expect_asked "^job bash-$$: running for "
kill -TERM "$ddprun"
finish
expect_exit 143

# A job that is killed leaves sockets, which ls removes.
# shellcheck disable=SC2016
on second start --rdzv_id second bash -c 'echo "beats: $NOTIFY_SOCKET"; exec sleep 600'
on second wait_for_stdout 'beats: /'
on second true
heartbeats=$(sed -n 's/^beats: //p' "$out")
socket=$sockets/second.$ddprun.sock
kill -KILL "$ddprun" "$(agent_of)" 2>/dev/null || true  # the first may take the other with it
on second finish
on only expect_no_stderr 'error'
wait_until test -S "$socket"
[ -S "$heartbeats" ] || fail "there is no socket for heartbeats: $heartbeats"
gone() { ask 0 ls && [ ! -e "$socket" ] && [ ! -e "$heartbeats" ]; }
on only true
wait_until gone

# The workers may end as they like, the job ends as by SIGTERM.
ask 0 stop "$ddprun"
expect_asked "^stopping job first: 3 ranks on 1 node$"
expect_asked "^stopped: its ddprun here, pid $ddprun, has ended$"
finish
expect_exit 143
expect_stderr '^ddprun: stopping the whole job, as ddprun stop asks$'
[ -z "$(ls -A "$sockets")" ] || fail "sockets are left: $(ls -A "$sockets")"

# Programs of these names are run.
printf '#!/bin/sh\necho "the program $1"\n' >"$work/ls"
chmod +x "$work/ls"
[ "$(cd "$work" && "$DDPRUN" ./ls a)" = 'the program a' ] || fail "./ls is not run"
[ "$(PATH=$work:$PATH "$DDPRUN" -- ls b)" = 'the program b' ] || fail "-- ls is not run"
wait_until no_survivors
expect_no_process_left
