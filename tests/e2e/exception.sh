#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The exception in a worker's error file is the cause that every node reports; ddprun's own caller gets
# it, too. A file that is malformed, or of an earlier attempt, is ignored.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Writes the error file as PyTorch's @record does.
cat >"$work/train.py" <<'END'
import json, os, sys, time, traceback

def step(batch):
    raise RuntimeError("loss is nan in batch %d" % batch)

def train():
    for batch in range(7, 9):
        step(batch)

try:
    if os.environ["RANK"] != "3":
        time.sleep(600)
    print("step 812", file=sys.stderr)
    train()
except Exception as e:
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": {
            "py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}}, file)
    raise
END

for node in a b; do
  on $node true
  command_prefix[$node]="TORCHELASTIC_ERROR_FILE=$work/$node.json"
  on $node start --nnodes 2 --rdzv_endpoint "$here:29500" "${quick[@]}" --nproc_per_node 2 \
    "$work/train.py"
done
for node in a b; do
  on $node finish
  expect_exit 1
  expect_stderr 'rank 3 failed first: exit 1 .*round 0\): RuntimeError: loss is nan in batch 7$'
  expect_stderr '^ +its traceback, the innermost call last:$'
  expect_stderr '^ +File ".*/train.py", line 8, in train$'
  expect_stderr '^ +raise RuntimeError\("loss is nan in batch %d" % batch\)$'
  expect_stderr '^ +its last words on stderr:$'
  expect_stderr '^ +step 812$'
  sed '1,/failed first/d' "$err" >"$work/report"
  ! grep -qE 'Traceback|loss is nan in batch 7' "$work/report" || fail "something is reported twice"
  [ "$(wc -l <"$work/report")" -le 20 ] || fail "the report is more than a screen"
  # The error file of ddprun's caller.
  python3 - "$work/$node.json" <<'END' || fail "not the file of the root cause"
import json, sys
message = json.load(open(sys.argv[1]))["message"]
assert message["message"] == "RuntimeError: loss is nan in batch 7", message
assert message["errorCode"] == 1, message
assert "in step" in message["extraInfo"]["py_callstack"], message
assert int(message["extraInfo"]["timestamp"]) > 0, message
END
done
same_report a b
cat "$work"/.?.events | grep -F '"exception":"RuntimeError: loss is nan in batch 7"' |
  grep -qF '"event":"worker_ended"' || fail "no event has the exception"
expect_no_process_left

# Each attempt is reported from its own file.
on only run --max_restarts 3 sh -c 'case $TORCHELASTIC_RESTART_COUNT in
  0) echo "{\"message\": \"of the first\", \"timestamp\": 1}" >"$TORCHELASTIC_ERROR_FILE";;
  1) echo "{\"message\": \"cut of" >"$TORCHELASTIC_ERROR_FILE";;
  2) mkfifo "$TORCHELASTIC_ERROR_FILE";;
  esac; echo "attempt $TORCHELASTIC_RESTART_COUNT" >&2; exit 5'
expect_exit 5
expect_stderr 'round 0\): of the first$'
expect_stderr 'round 1\): attempt 1$'
expect_stderr 'round 2\): attempt 2$'
expect_stderr 'round 3\)$'
expect_no_stderr 'traceback'
expect_no_process_left

# Without an error file of a worker the caller's file is not written.
echo mine >"$work/mine.json"
TORCHELASTIC_ERROR_FILE=$work/mine.json run sh -c 'exit 5'
expect_exit 5
[ "$(cat "$work/mine.json")" = mine ] || fail "the caller's file was touched"
TORCHELASTIC_ERROR_FILE=$work/none/error.json run sh -c '
  echo "{\"message\": \"flat\"}" >"$TORCHELASTIC_ERROR_FILE"; exit 5'
expect_exit 5
expect_stderr "^ddprun: TORCHELASTIC_ERROR_FILE: cannot create $work/none/error.json.*: No such file"
expect_no_process_left

# A worker that had reported an exception before it was stopped has failed, too. A worker that reports one because it is
# stopped has not. The first failure comes when files are dated later than that exception: their clock has ticks.
run --nproc_per_node 3 bash -c '
  report() { echo "{\"message\": \"ValueError: $1\"}" >"$TORCHELASTIC_ERROR_FILE"; }
  case $RANK in
  0) until [ -e "$0/1" ] && [ -e "$0/2" ]; do sleep 0.05; done
     until [ "$0/now" -nt "$0/1" ]; do : >"$0/now"; done; exit 5;;
  1) report "by itself"; : >"$0/1";;
  2) trap "report stopped; exit 1" TERM; : >"$0/2";;
  esac; while :; do sleep 0.1; done' "$work"
expect_exit 5
expect_stderr '^ +rank 1 failed too \(ValueError: by itself\)$'
expect_stderr '^ +rank 2 was stopped by ddprun \(SIGTERM'
expect_no_process_left
