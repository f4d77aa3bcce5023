#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --local_ranks_filter affects only the console; --duplicate_..._filters copy lines of all workers.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 3 --log_dir "$work/logs" --tee 0:1 --local_ranks_filter 1 sh -c '
  echo "out $RANK"; echo "err $RANK" >&2; [ "$RANK" != 2 ] || exit 3'
expect_exit 3
expect_no_stdout '^\[[02]\]'
expect_no_stderr '^\[[02]\]'
expect_stderr '^ +err 2$'  # the report of rank 2's end is not output
expect_no_process_left

run --nproc_per_node 2 --log_dir "$work/logs2" --tee 0:1 --redirects 1:3 --local_ranks_filter 1 \
  --duplicate_stdout_filters 'loss,a,,b' --duplicate_stderr_filters bad sh -c '
  echo "loss $RANK"; echo "a,b $RANK"; echo "a b $RANK"; printf "bad $RANK" >&2'
expect_exit 0
expect_no_stdout .
expect_no_stderr '^\[0\]'
sort "$work"/logs2/*/attempt_0/filtered_stdout.log >"$work/sorted"
printf '[0] a,b 0\n[0] loss 0\n[1] a,b 1\n[1] loss 1\n' | cmp - "$work/sorted" || fail "not these lines"
sort "$work"/logs2/*/attempt_0/filtered_stderr.log >"$work/sorted"
printf '[0] bad 0\n[1] bad 1\n' | cmp - "$work/sorted" || fail "not these lines of stderr"
for rank in 0 1; do
  printf 'loss %s\na,b %s\na b %s\n' $rank $rank $rank |
    cmp - "$(echo "$work"/logs2/*/attempt_0/$rank/stdout.log)" || fail "log file $rank differs"
done
expect_no_process_left

export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='<${role_name} ${local_rank} ${rank}> '
run --nproc_per_node 2 --role worker echo hello
expect_stdout '^<worker 0 0> hello$'
expect_stdout '^<worker 1 1> hello$'
expect_no_process_left
