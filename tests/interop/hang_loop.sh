#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that computes without end while the others wait for it in DDP's backward() counts as a hang.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
[ -e /proc/self/sched ] || skip "the kernel does not say how long a process has been asleep: no /proc/PID/sched"

export FAILURES_RANK=1 FAILURES_FOLDER=$work
under ddprun --nproc_per_node 3 --hang_timeout 6 "$interop/../failures/ddp_worker.py" loop
expect_exit 124
expect_stderr "^ddprun: no rank has made progress for "
expect_stderr "rank 1 \($(hostname)\) is the likely cause: after #[0-9]+ all_reduce\[10\], in find_next \(ddp_worker.py:[0-9]+\), busy on a CPU, while ranks 0, 2 waited in #[0-9]+ all_reduce\[10\]"
expect_no_process_left
