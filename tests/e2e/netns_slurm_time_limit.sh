#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Under a real Slurm of two hosts a job whose time limit is reached is requeued, and runs again. It
# takes up to 30 s until Slurm notices that the time is over.
. "$(dirname "${BASH_SOURCE[0]}")/netns_slurmd.sh"
slurm JobRequeue=1

submit --nodes 2 --time 60 -- "exec $DDPRUN --requeue 1 \
  sh -c 'echo restart \$SLURM_RESTART_COUNT; test ! -e $work/again || exit 0; exec sleep 1000'"
of_job
both_run() { [ "$(grep -c 'restart' "$out")" = 2 ]; }
wait_until both_run
(at 1 scontrol update JobId="$job" EndTime=now+1)
wait_for_stderr "slurm job $job is requeued, time 1 of 1: its time limit was reached"
wait_until job_is PENDING
touch "$work/again"
(at 1 scontrol update JobId="$job" StartTime=now)  # Slurm lets it wait for two minutes
wait_until job_is COMPLETED
[ "$(grep -c 'restart 1' "$out")" = 2 ] || fail "the job did not run again: $(cat "$out")"

end_slurm
expect_no_process_left soon
