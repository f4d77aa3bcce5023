#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank of PyTorch that sleeps while the others wait for it in a collective is named, not only the first of
# those to time out. If py-spy is quick enough, with its line.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
[ -e /proc/self/sched ] || skip "the kernel does not say how long a process has been asleep: no /proc/PID/sched"

under ddprun --nproc_per_node 3 "$interop/suspect.py"
expect_exit 1
expect_stderr "^ddprun: rank 1 \($(hostname)\) is the likely cause: (after #1 barrier, )?(in load_batch \(suspect.py:[0-9]+\), )?asleep \(clock_nanosleep\) for [0-9.]+ s, while rank(s 0, 2| 0| 2) waited( in (#2 all_reduce\[1\]|all_reduce \(suspect.py:[0-9]+\)))?$"
expect_stderr '^        rank [02] failed first: exit 1 '
expect_no_process_left
