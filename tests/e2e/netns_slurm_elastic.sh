#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Under a real Slurm of three hosts, an elastic job that one command starts continues when one of its hosts dies with
# its slurmd, and ends well. In the shell of salloc the line is the same.
slurm_hosts=3
. "$(dirname "${BASH_SOURCE[0]}")/netns_slurmd.sh"
slurm SlurmdTimeout=10

on_host 1 salloc --nodes 3 sh -c "exec $DDPRUN $DDPRUN_BIN/allreduce_hello"
[ "$code" = 0 ] || fail "exit code $code: $(cat "$err")"
for rank in 0 1 2; do expect_stdout "rank $rank of 3: the sum is 6\$"; done

# shellcheck disable=SC2016
submit --nodes 3 --no-kill -- "$DDPRUN --nnodes 2:3 ${quick[*]} --last_call_timeout 1 sh -c '
  echo \"rank \$RANK of \$WORLD_SIZE\"; until [ -e $work/finish ]; do sleep 0.1; done'
  echo \"ended \$?\""
of_job
ranks_of() { [ "$(grep -c "rank [0-9] of $1\$" "$out")" -ge "$1" ]; }
wait_until ranks_of 3
unplug 3
for pid in $(ip netns pids "$net-3"); do kill -KILL "$pid" 2>/dev/null || true; done
wait_until ranks_of 2
: >"$work/finish"
wait_for_stdout '^ended 0$'
expect_stderr 'host node3 is lost: its srun ended'
wait_until job_is_over  # or its last step would wait for a slurmd

end_slurm
expect_no_process_left soon
