#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGQUIT that is not among the --signals_to_handle shows where the workers are, and they run on: those in the
# same place as one group. `ddprun stacks` shows the same, of all nodes.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

worker='echo "ready $$"; if [ "$RANK" = 1 ]; then read -r line; fi; exec sleep 600'
start --nproc_per_node 3 --signals_to_handle SIGTERM bash -c "$worker"
for rank in 0 1 2; do wait_for_stdout "^\[$rank\] ready"; done
sleeps() { [ "$(readlink "/proc/$(worker_of "$1")/exe")" = "$(readlink -f "$(command -v sleep)")" ]; }
for rank in 0 1 2; do wait_until sleeps "$rank"; done
kill -QUIT "$ddprun"
wait_for_stderr '^ddprun: where ranks 0-2 are, the innermost call last:$'
wait_for_stderr '^ +\[waiting \(clock_nanosleep\).*\]$'
wait_for_event signal_received SIGQUIT

# The same by asking it, as text and as JSON.
"$DDPRUN" stacks "$ddprun" >"$work/text" || fail 'no answer'
grep -q '^where ranks 0-2 are, the innermost call last:$' "$work/text" || fail "$(cat "$work/text")"
"$DDPRUN" stacks "$ddprun" --native --json >"$work/json" || fail 'no answer'
grep -q '"hosts":\[{"host":"[^"]*","ranks":"0-2"}\]' "$work/json" || fail "$(cat "$work/json")"

# A worker that was stopped is a group of its own, and stays stopped.
kill -STOP "$(worker_of 2)"
wait_for_stderr 'rank 2 .* is stopped by SIGSTOP'
kill -QUIT "$ddprun"
wait_for_stderr '^ +rank 2:$'
wait_for_stderr '^ +\[stopped by a signal \(state T\).*\]$'
grep -q '^State:.T' "/proc/$(worker_of 2)/status" || fail 'rank 2 runs'
[ -n "$(worker_of 0)" ] && kill -0 "$(worker_of 0)" || fail 'rank 0 has ended'
kill -CONT "$(worker_of 2)"

# Asked between, and by a second one at the same moment, it still stops as told.
kill -QUIT "$ddprun"
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left

# Each node answers for the whole job.
for node in a b; do
  on "$node" start "${quick[@]}" --nnodes 2 --rdzv_endpoint "$here" bash -c 'echo ready; exec sleep 600'
done
for node in a b; do on "$node" wait_for_stdout ready; done
whole() { "$DDPRUN" stacks "$ddprun" >"$work/text" && grep -q '^where ranks 0, 1 are' "$work/text"; }
for node in a b; do on "$node" wait_until whole; done
for node in a b; do kill -TERM "${pids[$node]}"; done
for node in a b; do on "$node" finish; done
on a expect_exit 143

# Without a worker there is none, and nothing is missing.
on b start "${quick[@]}" --nnodes 2 --rdzv_endpoint "$here" true
none() { "$DDPRUN" stacks "$ddprun" >"$work/text" 2>/dev/null; }
on b wait_until none
grep -qx 'no worker runs' "$work/text" || fail "$(cat "$work/text")"
! grep -q 'missing' "$work/text" || fail "$(cat "$work/text")"
kill -TERM "${pids[b]}"
on b finish

# In the list, as by default, it stops the job.
on only true
start --nproc_per_node 1 bash -c 'echo ready; exec sleep 600'
wait_for_stdout ready
kill -QUIT "$ddprun"
finish
expect_exit 131
expect_no_stderr 'innermost'
expect_no_process_left
