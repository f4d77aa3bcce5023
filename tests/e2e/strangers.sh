#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Strangers on the port of a running job: thousands of silent sockets and unfinished messages, a million
# keys, lists of them and values that nobody reads. The job keeps its leases, takes another node,
# restarts and ends well, and the memory of its master is bounded.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deadline=${DDPRUN_TEST_DEADLINE:-240}  # a million keys, on a busy machine
[ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || skip "a million keys take sanitizers longer than the test has"
# The lease is the default: a shorter one would measure the machine, which the attackers load.
job=(--nnodes 2:3 --max_restarts 1 --rdzv_endpoint "$here:29500" --last_call_timeout 1s)
program='echo "round $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT"
  until [ -e "$0/fail" ]; do sleep 0.1; done
  [ "$TORCHELASTIC_RESTART_COUNT$RANK" != 01 ]'

attackers=()
strangers() {
  python3 "$(dirname "${BASH_SOURCE[0]}")/strangers.py" "$1" "$here" 29500 >"$work/$1.out" 2>"$work/$1.err" &
  attackers+=($!)
}
stop_attackers() {
  kill -KILL "${attackers[@]}"
}
at_exit+=(stop_attackers)
are_ready() {
  local kind
  for kind in "$@"; do grep -q ready "$work/$kind.out" || return 1; done
}

on a start "${job[@]}" sh -c "$program" "$work"
on b start "${job[@]}" --rdzv_conf is_host=false sh -c "$program" "$work"
for node in a b; do on "$node" wait_for_stdout 'round 2 0'; done
for kind in silent frames keys readers; do strangers "$kind"; done
on a wait_until are_ready silent frames keys readers

on c start "${job[@]}" --rdzv_conf is_host=false sh -c "$program" "$work"
for node in a b c; do on "$node" wait_for_stdout 'round 3 0'; done
: >"$work/fail"
for node in a b c; do on "$node" wait_for_stdout 'round 3 1'; done
on a
peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(agent_of)/status" || true)
for node in a b c; do
  on "$node" finish
  expect_exit 0
  expect_no_stderr 'no heartbeat for|is gone: '
done
on a
[ "$(wc -c <"$err")" -lt 20000 ] || fail "strangers filled its stderr"
echo "the master's peak: $((${peak:-0} / 1024)) MiB"
[ "${peak:-0}" -lt $((512 * 1024)) ] || fail "its agent took $peak KiB"
expect_no_process_left
