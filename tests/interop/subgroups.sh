#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that differs from the others of its subgroup is named, with both calls: in a row of a DeviceMesh, of FSDP, and
# of a pipeline whose other stage waits for it, too.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

expect_cause() {  # expect_cause ACTION WORDS
  under ddprun --nproc_per_node 6 --hang_timeout 10s "$interop/subgroups.py" "$1"
  expect_exit 124
  expect_stderr "^ +rank 4 \($(hostname)\) is the likely cause: $2$"
}
expect_cause mesh 'in #3 barrier, .*while ranks 3, 5 waited in #3 all_reduce\[4\]'
expect_cause fsdp 'in #5 barrier, .*while ranks 3, 5 waited in #5 all_gather\[[0-9]+\]'
expect_cause pipeline 'after #2 all_reduce\[4\], .*while ranks 3, 5 waited in #3 all_reduce\[4\]'
expect_no_process_left
