#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun stacks shows the functions of programs without Python: of C++ with frame pointers and without, with the
# lines where there is debug information, and of a program that uses `ddp`, whose rank that stands apart is apart.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v g++ >/dev/null || skip "there is no g++"
python3 -c 'import ctypes; ctypes.CDLL("libdw.so.1")' 2>/dev/null || skip "there is no python3 or libdw"

cat >"$work/train.cc" <<'END'
#include <cstdio>
#include <unistd.h>
volatile int passes;  // what follows a call keeps it from being the last thing that a function does
__attribute__((noinline)) void load_batch() { pause(); ++passes; }
__attribute__((noinline)) void train() { load_batch(); ++passes; }
int main() { std::puts("ready"); std::fflush(stdout); train(); }
END
shows() {  # shows REGEX...: each is in one answer
  local regex
  "$DDPRUN" stacks "$ddprun" >"$work/shown" 2>&1 || return 1
  for regex in "$@"; do grep -qE "$regex" "$work/shown" || return 1; done
}
for pointers in -fomit-frame-pointer -fno-omit-frame-pointer; do
  g++ -g -O2 $pointers -o "$work/train" "$work/train.cc"
  start --nproc_per_node 2 "$work/train"
  for rank in 0 1; do wait_for_stdout "^\[$rank\] ready"; done
  wait_until shows '^where ranks 0-1 are|^where ranks 0, 1 are' '^ *main \(train\.cc:6\)' '^ *train\(?\)? \(train\.cc:5\)' \
    '^ *load_batch\(?\)? \(train\.cc:4\)'
  kill -TERM "$ddprun"
  finish
  expect_exit 143
done

# The report of a hang has them, too.
run --hang_timeout 5 "$work/train"
expect_exit 124
expect_stderr ' rank 0 \(.*\): asleep \(pause\) in load_batch(\(\))? \(train\.cc:4\) for '

worker=$DDPRUN_BIN/failures_worker
[ -x "$worker" ] || skip "there is no failures_worker"
FAILURES_RANK=1 start --nproc_per_node 3 "$worker" hang_longer
wait_until shows '^ranks 0, 2:$' '^ +.*ProcessGroup::all_reduce' '^rank 1:$'
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left
