#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun reads the calls of PyTorch's workers from its flight recorder: of ranks that wait and of ranks that have failed.
# The program finds its environment as it is, and the user's sitecustomize runs.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

# All fail by a time-out at the same moment.
under ddprun --nproc_per_node 3 "$interop/flight_recorder.py" short
expect_exit 1
expect_stderr "^ddprun: rank 1 \($(hostname)\) is the likely cause: at #4 barrier, .*in barrier \(flight_recorder.py:[0-9]+\), while ranks 0, 2 waited in #4 all_reduce\[20\]$"

# While they wait.
on waits start --nproc_per_node 3 --rdzv_id recorded "$interop/flight_recorder.py" wait
in_call() { "$DDPRUN" status recorded >"$work/status" 2>&1 && grep -q 'in #4 barrier' "$work/status"; }
wait_until in_call
grep -q 'in #4 all_reduce\[20\]' "$work/status" || fail "rank 0 is in no call: $(cat "$work/status")"
grep -q 'after #3 all_reduce\[20\]' "$work/status" || fail "rank 2 has made no call: $(cat "$work/status")"
kill -TERM "$ddprun"
finish

# The program's own sitecustomize and environment.
mkdir "$work/user"
echo 'print("the sitecustomize of the user", flush=True)' >"$work/user/sitecustomize.py"
seen() { grep -oh 'environment.*\|the sitecustomize.*' "$1" | sort -u; }
PYTHONPATH=$work/user "$python" "$interop/flight_recorder.py" >"$work/by_itself"
expected=$(seen "$work/by_itself")
for recorder in 0 1; do
  PYTHONPATH=$work/user under ddprun --flight_recorder $recorder --nproc_per_node 2 "$interop/flight_recorder.py"
  expect_exit 0
  [ "$(seen "$out")" = "$expected" ] || fail "with --flight_recorder $recorder: $(seen "$out"), and by itself: $expected"
done
unset PYTHONPATH
under ddprun "$interop/flight_recorder.py"
expect_stdout '^environment None '
# The folder goes with the job, and with what Python has compiled there.
unset PYTHONDONTWRITEBYTECODE
under ddprun "$python" -c 'print("folder", *(each[23:] for each in open("/proc/self/environ").read().split("\0") if each.startswith("DDPRUN_RECORDER_FOLDER=")))'
expect_stdout '^folder /'
[ ! -e "$(sed -n 's/^folder //p' "$out")" ] || fail 'the folder of the workers is left'
expect_no_process_left
