#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PyTorch's timers: a worker that is in an expires() block for too long is killed, by torchrun and by ddprun, and
# one that left the block is not. The job fails, and ddprun says why.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

export TORCHELASTIC_ENABLE_FILE_TIMER=1
for launcher in $(reference_launcher) ddprun; do
  under "$launcher" --nproc_per_node 2 "$interop/timers.py" in_time
  expect_exit 0
  [ "$(sorted_stdout)" = $'0 done\n1 done' ] || fail 'a worker did not end'
  under "$launcher" --nproc_per_node 2 "$interop/timers.py" late
  [ "$code" != 0 ] || fail 'the job succeeded'
  expect_stdout '1 begins$'
  expect_no_stdout 'done$'
done
expect_exit 137
expect_stderr "^ddprun: rank 1 failed first: killed by SIGKILL .*: its timer 'step 1' expired \(TORCHELASTIC_TIMER_FILE\)$"
expect_no_process_left
