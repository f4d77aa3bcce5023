#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A name that does not resolve yet is retried, with a message; when it resolves the job starts.
# MASTER_ADDR is the name as given.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 2
job=(--nnodes 2 --rdzv_endpoint trainer.job.test "${quick[@]}")

for host in 1 2; do
  on "$host" start "${job[@]}" sh -c 'echo "$RANK at $MASTER_ADDR:$MASTER_PORT"'
done
for host in 1 2; do
  on "$host" wait_for_stderr 'waiting [0-9.]+ s for the master at trainer.job.test:29500: .*; giving up after .* \(--join_timeout\)'
done
echo '10.9.0.2 trainer.job.test' >>"$work/hosts"
for host in 1 2; do on "$host" finish && expect_exit 0; done
on 2 expect_stdout '^\[0\] 0 at trainer.job.test:29500$'  # the host of the rendezvous has rank 0
on 1 expect_stdout '^\[1\] 1 at trainer.job.test:29500$'
expect_no_process_left
