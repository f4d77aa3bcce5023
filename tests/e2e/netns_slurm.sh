#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Under a real Slurm of two hosts a program of the collectives library starts directly with srun, on
# one host and on both, and so do the agents of a job of two nodes, with flags or without. In a batch
# script, and in salloc's command on another host, ddprun starts the agents itself.
. "$(dirname "${BASH_SOURCE[0]}")/netns_slurmd.sh"
hello=$DDPRUN_BIN/allreduce_hello
slurm SchedulerParameters=bf_interval=1  # by which jobs of several components are begun

expect_four_sums() {
  local rank
  [ "$code" = 0 ] || fail "exit code $code: $(cat "$err")"
  for rank in 0 1 2 3; do expect_stdout "rank $rank of 4: the sum is 10\$"; done
  [ "$(grep -c sum "$out")" = 4 ] || fail "a rank printed its sum more than once"
}
on_host 1 srun --nodes 1 --ntasks 4 "$hello"
expect_four_sums
on_host 1 srun --nodes 2 --ntasks 4 "$hello"
expect_four_sums
on_host 1 srun --nodes 2 --ntasks-per-node 1 \
  "$DDPRUN" --nnodes 2 --rdzv_endpoint node1:29500 --nproc_per_node 2 "$hello"
expect_four_sums
# Slurm says the rest: nodes, ranks, the host of the rendezvous.
on_host 1 srun --nodes 2 --ntasks-per-node 1 "$DDPRUN" --nproc_per_node 2 "$hello"
expect_four_sums
on_host 1 srun --nodes 2 --ntasks-per-node 1 "$DDPRUN" doctor
expect_stdout '^doctor: .* 2 nodes$'
on_host 1 srun --nodes 2 --ntasks 4 "$DDPRUN" --nproc_per_node 2 "$hello"
[ "$code" != 0 ] || fail "several tasks on a node were not refused"
expect_stderr 'srun started 3 tasks on a node, .* use srun --ntasks-per-node=1'

batch --nodes 2 -- "exec $DDPRUN --nproc_per_node 2 $hello"
expect_four_sums
printf 'import os, sys\nprint("rank", os.environ["RANK"], "colorsys" in sys.modules)\n' >"$work/forked.py"
batch --nodes 2 -- "exec $DDPRUN --nproc_per_node 2 --preload colorsys $work/forked.py"
expect_exit 0
for rank in 0 1 2 3; do expect_stdout "rank $rank True\$"; done
batch --nodes 2 -- "exec $DDPRUN doctor"
expect_stdout '^doctor: .* 2 nodes$'
# shellcheck disable=SC2016
batch --nodes 2 -- "exec $DDPRUN sh -c 'test \$RANK = 0 || exit 7; exec sleep 1000'"
expect_exit 7
[ "$(grep -c 'rank 1 failed first' "$err")" = 1 ] || fail "not one report"
on_host 3 salloc --nodes 2 "$DDPRUN" --nproc_per_node 2 "$hello"  # host 3 has no slurmd
expect_four_sums
# A job of two components, each with a host.
on_host 3 salloc --nodes 1 : --nodes 1 sh -c \
  "$DDPRUN true; exec srun --het-group=0-1 --ntasks-per-node 1 $DDPRUN --nproc_per_node 2 $hello"
expect_four_sums
expect_stderr 'SLURM_HET_SIZE=2, and .*: use srun --het-group=0-1 '

end_slurm
expect_no_process_left soon
