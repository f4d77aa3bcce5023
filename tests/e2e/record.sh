#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The report has the exception or signal that ended a C++ worker under ddp::record, once.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

signals=handle_segv=0:use_sigaltstack=0  # sanitizers leave them to the worker, and so does the
export ASAN_OPTIONS=$signals TSAN_OPTIONS=$signals UCX_HANDLE_ERRORS=none  # UCX of an MPI
ulimit -c 0

run "$DDPRUN_BIN/record_worker" segv
expect_exit 139
expect_stderr 'rank 0 failed first: killed by SIGSEGV .*round 0\): nothing is mapped at address 0x10$'
expect_stderr '^ +its traceback, the innermost call last:$'
sed '1,/failed first/d' "$err" >"$work/report"
tail -2 "$work/report" | head -1 | grep -qF '(write_to(int*)+0x' || fail "not the innermost call last"
! grep -q 'last words' "$work/report" || fail "something is reported twice"
expect_no_process_left

run --max_restarts 1 "$DDPRUN_BIN/record_worker" nested
expect_exit 1
expect_stderr 'round 0\): app::Broken: epoch 3 caused by std::runtime_error: cannot load caused by '
expect_stderr 'round 1\): app::Broken: epoch 3 caused by std::runtime_error: cannot load caused by '
expect_no_stderr 'last words'
expect_no_process_left
