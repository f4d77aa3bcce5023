#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job that only looks hung is not reported: one that compiles, writes a checkpoint, computes or spins (also in a
# barrier of MPI), draws a progress bar in a thread, is held by a debugger, or stood still as a whole. Each does so for
# twice the time-out.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip "there is no python3"

export work
traps=(compiles checkpoints spins draws debugged suspended)
cat >"$work/trap.py" <<'END'
import os, subprocess, sys, threading, time
print('ready', flush=True)
ended = os.path.join(os.environ['work'], 'ended')
def until_ended(act, pause):
    while not os.path.exists(ended):
        act()
        time.sleep(pause)
def spin():
    end = time.process_time() + .01
    while time.process_time() < end: pass
def checkpoint(file=open(os.path.join(os.environ['work'], 'checkpoint.' + sys.argv[1]), 'wb', 0)):
    file.seek(0)
    file.write(bytes(1 << 20))
if sys.argv[1] == 'compiles': until_ended(lambda: subprocess.run(['sleep', '.2']), 0)
elif sys.argv[1] == 'checkpoints': until_ended(checkpoint, .2)
elif sys.argv[1] == 'spins': until_ended(spin, .05)
elif sys.argv[1] == 'draws':
    draw = lambda: print('\r50 %', end='', flush=True)
    thread = threading.Thread(target=until_ended, args=(draw, .2))
    thread.start()
    thread.join()
else:
    while not os.path.exists(ended): time.sleep(.2)
END
# Holds the process from its first look on, as a debugger at a breakpoint does.
cat >"$work/debug.py" <<'END'
import ctypes, os, signal, sys
libc, pid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
SEIZE, INTERRUPT = 0x4206, 0x4207
if libc.ptrace(SEIZE, pid, None, None) or libc.ptrace(INTERRUPT, pid, None, None): sys.exit(77)
print('holds', flush=True)
signal.pause()
END

if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
  cat >"$work/waits.c" <<'END'
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("ready"), fflush(stdout);
  if (rank == 1) while (access(argv[1], F_OK) != 0) usleep(200000);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
END
  mpicc -o "$work/waits" "$work/waits.c"
  on mpi start --hang_timeout 5 mpirun --allow-run-as-root --oversubscribe -n 2 "$work/waits" "$work/ended"
  on mpi wait_for_stdout ready
fi
for trap in "${traps[@]}"; do
  on "$trap" start --hang_timeout 5 python3 "$work/trap.py" "$trap"
done
for trap in "${traps[@]}"; do on "$trap" wait_for_stdout ready; done
[ -z "${pids[mpi]:-}" ] || traps+=(mpi)
on debugged true
env "$mark" python3 "$work/debug.py" "$(worker_of 0)" >"$work/debugger" &
debugger=$!
wait_until grep -qs holds "$work/debugger" || skip "processes may not be traced here"
on suspended true
stopped=("$ddprun" "$(agent_of)" "$(worker_of 0)")
kill -STOP "${stopped[@]}"
# A job that does hang tells when twice the time-out is over.
on witness run --hang_timeout 10 sleep 600
on witness expect_stderr 'no rank has made progress'
kill -CONT "${stopped[@]}"
kill "$debugger"
wait "$debugger" 2>/dev/null || true
touch "$work/ended"
for trap in "${traps[@]}"; do
  on "$trap" finish
  on "$trap" expect_exit 0
  on "$trap" expect_no_stderr 'no rank has made progress|stopped by'
done
expect_no_process_left
