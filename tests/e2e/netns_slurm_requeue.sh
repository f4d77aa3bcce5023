#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Under a real Slurm of two hosts: workers learn that the time limit comes, a preempted job is
# requeued and resumes its training with the right loss, one that lost a host is requeued, one that
# was cancelled or has failed is not, a killed slurmd harms no job that runs, and two jobs on the same
# hosts do not meet.
. "$(dirname "${BASH_SOURCE[0]}")/netns_slurmd.sh"
hello=$DDPRUN_BIN/allreduce_hello
train=$DDPRUN_BIN/train_digits
epochs=8
requeue_wait=10
slurm PreemptType=preempt/partition_prio PreemptMode=CANCEL JobRequeue=1 \
  SchedulerParameters=sched_interval=1 \
  'PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=600 PreemptMode=CANCEL MaxTime=INFINITE' \
  'PartitionName=high Nodes=ALL PriorityTier=10 MaxTime=INFINITE'

# The time limit is an hour away, and the signal is due a day before it.
batch --nodes 2 --time 60 -- "exec $DDPRUN --nproc_per_node 2 --deadline_signal USR2@1d \
  sh -c 'trap \"echo rank \$RANK was told; exit 0\" USR2; while :; do sleep 0.1; done'"
expect_exit 0
for rank in 0 1 2 3; do expect_stdout "rank $rank was told"; done
expect_stderr "slurm job $job's time limit is over in .*: SIGUSR2 to "

two_jobs() {
  local first
  submit --nodes 2 -- "exec $DDPRUN --nproc_per_node 2 $hello"
  first=$job
  batch --nodes 2 -- \
    "exec srun --nodes 2 --ntasks-per-node 1 $DDPRUN --nproc_per_node 2 $hello"
  expect_exit 0
  [ "$(grep -c 'of 4: the sum is 10$' "$out")" = 4 ] || fail "job $job: $(cat "$out" "$err")"
  job=$first
  wait_until job_is_over
  of_job
  [ "$(grep -c 'of 4: the sum is 10$' "$out")" = 4 ] || fail "job $job: $(cat "$out" "$err")"
}
two_jobs

batch --nodes 2 -- "exec $DDPRUN --requeue 1 sh -c 'exit 7'"
expect_exit 7
expect_stderr "slurm job $job is not requeued: neither its time limit nor "
[ "$(job_field Restarts)" = 0 ] || fail "a job that failed was requeued"

submit --nodes 2 -- "exec $DDPRUN --requeue 1 sh -c 'echo by \$GLOO_SOCKET_IFNAME; exec sleep 1000'"
of_job
both_run() { [ "$(grep -c 'by eth0$' "$out")" = 2 ]; }
wait_until both_run
on_host 1 scancel "$job"
code=running
of_job
wait_until job_is_over
expect_stderr "slurm job $job is not requeued: it was cancelled"
job_is CANCELLED || fail "a cancelled job is $(job_field JobState)"

submit --nodes 2 -- "exec $DDPRUN --requeue 1 sh -c 'echo by \$GLOO_SOCKET_IFNAME; exec sleep 1000'"
of_job
wait_until both_run
agents=()
for pid in $(ip netns pids "$net-2"); do
  ! grep -qs '^ddp' "/proc/$pid/comm" || agents+=("$pid")
done
kill -KILL "${agents[@]}"
wait_for_stderr "slurm job $job is requeued, time 1 of 1: a host was lost"
wait_until job_is PENDING
on_host 1 scancel "$job"
code=running

last_loss() { sed -n "s|^.*epoch $epochs/$epochs *loss \([0-9.]*\) .*\$|\1|p" "$out"; }
same_loss() {  # to 1e-4 relative
  awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && d <= 1e-4 * a) }'
}
on undisturbed run --nproc_per_node 2 "$train" --epochs "$epochs"
expect_exit 0
undisturbed=$(last_loss)
on only true

# Its first run ends by the preemption alone, after two epochs.
submit --partition low --exclusive --nodes 2 -- "exec $DDPRUN --requeue 1 sh -c '
  train() { $train --checkpoint $work/checkpoint --epochs \$1; }
  test ! -e $work/again || { train $epochs; exit; }
  train 2 && echo waits && exec sleep 1000'"
of_job
both_wait() { [ "$(grep -c 'waits$' "$out")" = 2 ]; }
wait_until both_wait
training=$job
submit --partition high --exclusive --nodes 2 -- true
job=$training
of_job
wait_for_stderr "slurm job $job is requeued, time 1 of 1: it was preempted"
touch "$work/again"
wait_for_stdout "resumed after epoch 2/$epochs"
# A slurmd that is killed takes no worker with it.
{ kill -KILL "${daemons[3]}" && wait "${daemons[3]}"; } 2>/dev/null || true
wait_for_stdout "epoch $epochs/$epochs"
same_loss "$undisturbed" "$(last_loss)" || fail "loss $(last_loss), undisturbed $undisturbed"
daemon 2 slurmd -D -N node2
wait_until job_is COMPLETED

end_slurm
expect_no_process_left soon
