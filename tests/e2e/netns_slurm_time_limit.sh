#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Under a real Slurm of two hosts a job whose time limit is reached is requeued, and runs again. Slurm
# looks for jobs that are over their limit each half a minute. And where workers ignore the signal with which
# it cancels a job, what ddprun has to say is out before it kills everything.
. "$(dirname "${BASH_SOURCE[0]}")/netns_slurmd.sh"
requeue_wait=10
slurm JobRequeue=1 SchedulerParameters=sched_interval=1

submit --nodes 1 -- "exec $DDPRUN --requeue 1 sh -c 'trap \"\" TERM; echo stays; while :; do sleep 1; done'"
stubborn=$job
of_job
wait_for_stdout stays
on_host 1 scancel "$stubborn"
code=running

submit --nodes 2 --time 60 -- "exec $DDPRUN --requeue 1 \
  sh -c 'echo restart \$SLURM_RESTART_COUNT; test ! -e $work/again || exit 0; exec sleep 1000'"
of_job
both_run() { [ "$(grep -c 'restart' "$out")" = 2 ]; }
wait_until both_run
touch "$work/again"
(at 1 scontrol update JobId="$job" EndTime=now+2)
wait_for_stderr "slurm job $job is requeued, time 1 of 1: its time limit was reached"
is_over_again() { sleep 1 && job_is_over; }  # each question costs two processes and the controller's time
wait_until is_over_again
job_is COMPLETED || fail "the job did not run again, it is $(job_field JobState): $(cat "$out" "$err")"
[ "$(grep -c 'restart 1' "$out")" = 2 ] || fail "not two workers ran again: $(cat "$out")"

job=$stubborn
of_job
wait_for_stderr 'rank 0 did not stop within 25 s \(--shutdown_timeout\): killed'
wait_for_stderr "slurm job $job is not requeued: it was cancelled"

end_slurm
expect_no_process_left soon
