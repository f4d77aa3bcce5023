#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Under a real Slurm of two hosts a job whose time limit is reached is requeued, and runs again. The
# least limit is a minute, and Slurm looks for jobs that are over it each half a minute.
. "$(dirname "${BASH_SOURCE[0]}")/netns_slurmd.sh"
deadline=140
slurm JobRequeue=1

submit --nodes 2 --time 1 -- "exec $DDPRUN --requeue 1 \
  sh -c 'echo restart \$SLURM_RESTART_COUNT; test ! -e $work/again || exit 0; exec sleep 1000'"
of_job
both_run() { [ "$(grep -c 'restart' "$out")" = 2 ]; }
wait_until both_run
wait_for_stderr "slurm job $job is requeued, time 1 of 1: its time limit was reached"
touch "$work/again"
is_completed() {
  job_is COMPLETED && return
  # It would run in two minutes. Once, as each update makes it wait for the scheduler again.
  [ "$(job_field Reason)" != BeginTime ] ||
    (at 1 scontrol update JobId="$job" StartTime=now) 2>/dev/null || true
  sleep 1
  false
}
wait_until is_completed
[ "$(grep -c 'restart 1' "$out")" = 2 ] || fail "the job did not run again: $(cat "$out")"

end_slurm
expect_no_process_left soon
