#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If workers cannot be forked with --preload, they start without it, and one line says why. An import that fails,
# or does not end, is a failure of the job, reported once.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v python3 >/dev/null || skip "there is no python3"
unset PYTHON_EXEC
DDPRUN=$(realpath "$DDPRUN")
cd "$work"
export IMPORTS=$work/imports
cat >program.py <<'END'
import os
print("rank", os.environ["RANK"], "runs", flush=True)
END
cat >with_thread.py <<'END'
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
END
cat >with_socket.py <<'END'
import socket
kept = socket.socket()
END
cat >ends.py <<'END'
import os
print("bye")
os._exit(0)
END
cat >fails.py <<'END'
def build():
    raise RuntimeError("no such device")
build()
END
cat >crashes.py <<'END'
import os, signal, sys
print("a last word", file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.SIGSEGV)
END
cat >hangs.py <<'END'
import os, time
open(os.environ["IMPORTS"], "a").close()
time.sleep(600)
END

refused() {  # refused MODULES REASON
  run --nproc_per_node 2 --preload "$1" program.py
  expect_exit 0
  expect_stdout '^\[0\] rank 0 runs$'
  expect_stdout '^\[1\] rank 1 runs$'
  expect_stderr "^ddprun: --preload has no effect, .*: $2\$"
  [ "$(grep -c 'no effect' "$err")" = 1 ] || fail "not one line"
  expect_no_process_left
}
refused json,with_thread,fails 'after the import of with_thread 2 threads run'
refused with_socket 'after the import of with_socket a connection is open'
mkdir with_cuda
printf 'class cuda:\n    is_initialized = staticmethod(lambda: True)\n' >with_cuda/torch.py
PYTHONPATH=$work/with_cuda refused torch 'after the import of torch CUDA is initialized'
refused ends 'it ended while importing ends'
expect_stderr '^ddprun: --preload: bye$'

# A Python that claims to be old.
cat >old_python <<'END'
#!/bin/sh
for word; do
  case $word in *_ddprun_template*) exec python3 -u -c "import sys; sys.version_info = (3, 7, 1)
$word" "$5" "$6" ;; esac
done
exec python3 "$@"
END
chmod +x old_python
PYTHON_EXEC=$work/old_python refused json 'Python 3\.7 is older than 3\.8'

# The process that forks the workers, and ends then, is killed: that round fails.
cat >killed_fork.py <<'END'
import os, signal
template = os.getpid()
def killed_once():
    if os.getppid() == template and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
os.register_at_fork(after_in_child=killed_once)
END
run --nproc_per_node 2 --preload killed_fork --max_restarts 1 program.py
expect_exit 0
expect_stderr 'the process of --preload ended \(exit 1\) while it forked the workers'
expect_stderr 'restart 1 of 1'
for rank in 0 1; do expect_stdout "^\[$rank\] rank $rank runs\$"; done
expect_no_process_left

# Sanitizers read /proc.
if [ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] && unshare -rm mount -t tmpfs none /proc 2>/dev/null; then
  printf '#!/bin/sh\nmount -t tmpfs none /proc && exec "$@"\n' >without_proc
  chmod +x without_proc
  command_prefix[only]="unshare -rm $work/without_proc"
  refused json '/proc does not show this process'
  command_prefix[only]=''
fi

# One report for all workers, and no worker ran.
run --nproc_per_node 2 --preload json,fails program.py
expect_exit 1
[ "$(grep -c 'RuntimeError: no such device' "$err")" = 1 ] || fail "not one report"
expect_stderr 'rank 0 failed first: exit 1 after .*: RuntimeError: no such device'
expect_stderr '^  .*fails.py", line 2, in build'
expect_no_stdout runs
expect_no_process_left

run --preload no_such_module program.py
expect_exit 1
expect_stderr 'python3 has no module no_such_module'
expect_no_process_left

run --preload crashes program.py
expect_exit 139
expect_stderr 'killed by SIGSEGV'
expect_stderr 'a last word'
expect_no_process_left

# The import may have failed before there is a round.
: >"$IMPORTS"
echo 'import os; print("again", file=open(os.environ["IMPORTS"], "a")); raise ValueError("early")' >fails_early.py
endpoint=(--nnodes 2 --rdzv_endpoint "$here:29400" "${quick[@]}" --preload fails_early program.py)
on a start "${endpoint[@]}"
wait_until grep -q again "$IMPORTS"
template_gone() { ! pgrep -f "^ddp-preload of $(agent_of)\$" >/dev/null; }
wait_until template_gone
on b start "${endpoint[@]}"
for node in a b; do
  on $node finish
  expect_exit 1
  expect_stderr 'rank [01] failed first: exit 1 after .*ValueError: early'
done
[ "$(wc -l <"$IMPORTS")" -le 2 ] || fail "not one import on each node"
on only true
rm "$IMPORTS"
expect_no_process_left

# It is tried again where the job may restart.
run --preload fails --max_restarts 1 program.py
expect_exit 1
expect_stderr 'restart 1 of 1'
expect_no_process_left

# An import that does not end is reported, shown, and ended.
start --preload hangs --hang_timeout 15 program.py
wait_until test -e "$IMPORTS"
wait_for_stderr 'waiting 5 s for importing hangs \(--preload\)$'
"$DDPRUN" status "$ddprun" >status
grep -q 'importing hangs' status || fail "$(cat status)"
finish
expect_exit 137
expect_stderr 'importing hangs \(--preload\) made no progress for 15 s \(--hang_timeout\)'
expect_no_process_left

# An import that computes continues.
cat >computes.py <<'END'
import time
while time.process_time() < 7:
    pass
END
run --preload computes --hang_timeout 6 program.py
expect_exit 0
expect_stdout 'rank 0 runs'
expect_no_process_left

rm "$IMPORTS"
start --nproc_per_node 2 --preload hangs program.py
wait_until test -e "$IMPORTS"
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left

# A process that hangs when it has to fork is reported, and ended.
cat >waits.py <<'END'
import os, time
print("waits", flush=True)
time.sleep(600)
END
template_of() { pgrep -f "^ddp-preload of $(agent_of)\$"; }
start --nproc_per_node 2 --preload json --max_restarts 3 --hang_timeout 7 waits.py
wait_until grep -q '\[1\] waits' "$out"
kill -STOP "$(template_of)"
only_later_events
kill -KILL "$(worker_of 0)"
wait_for_stderr 'waiting 5 s for the process of --preload to fork the workers'
wait_for_stderr 'the process of --preload ended \(killed by SIGKILL\) while it forked the workers'
wait_for_event worker_started '"round":2,"rank":1'
kill -STOP "$(template_of)"
only_later_events
kill -KILL "$(worker_of 1)"
wait_for_event round_ready '"round":3'
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left
