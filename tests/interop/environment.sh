#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker's environment is exactly that of torchrun's workers, if flags set what is otherwise chosen:
# address, port, job id and GPUs. The only differences are the path of the error file and NOTIFY_SOCKET, for
# heartbeats. It has the same signals, limits, priority, processors, session and open files, too.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
unset OMP_NUM_THREADS
export CUDA_VISIBLE_DEVICES=1,0

cat >"$work/show.py" <<'PROGRAM'
import os
inherited = {
    "nice": os.nice(0),
    "policy": os.sched_getscheduler(0),
    "processors": os.sched_getaffinity(0),
    "leads its session": os.getsid(0) == os.getpid(),
    "files": sorted(os.listdir("/proc/self/fd")),
    "slack of timers": open("/proc/self/timerslack_ns").read(),
    "score": open("/proc/self/oom_score_adj").read(),
    "limits": open("/proc/self/limits").read(),
    "status": [line for line in open("/proc/self/status") if line.startswith(("Sig", "Cap", "NoNew", "Umask"))
               and not line.startswith("SigQ")],
}
lines = [f"{os.environ['RANK']} {name} {value!r}\n" for name, value in [*sorted(os.environ.items()), *inherited.items()]]
os.write(1, "".join(lines).encode())  # one write: torchrun's workers share the file
PROGRAM

variables() {  # except those that differ
  sed 's/^\[[0-9]*\] //; s/\(TORCHELASTIC_ERROR_FILE\) .*/\1/' "$out" | grep -vE ' (DDPRUN|_|NOTIFY_SOCKET) ' | sort
}

compare() {  # compare OPTIONS...: with both launchers
  local port
  port=$(free_port)
  for launcher in torchrun ddprun; do
    under "$launcher" --master_addr 127.0.0.1 --master_port "$port" "$@" "$work/show.py"
    expect_exit 0
    variables >"$work/$launcher.variables"
  done
  grep -q ' MASTER_PORT ' "$work/torchrun.variables" || fail "torchrun sets nothing"
  diff "$work/torchrun.variables" "$work/ddprun.variables" >"$work/difference" ||
    fail "$*: < torchrun, > ddprun: $(cat "$work/difference")"
  expect_no_process_left
}

# The second of two nodes has a role of its own.
roles_of() {  # roles_of COMMAND...: the workers' variables of roles
  local port
  port=$(free_port)
  set -- "$@" --nnodes 2 --master_addr 127.0.0.1 --master_port "$port"
  "$@" --node_rank 1 --role reader --nproc_per_node 1 "$work/show.py" >"$work/reader" 2>"$work/reader.err" &
  "$@" --node_rank 0 --role trainer --nproc_per_node 2 "$work/show.py" >"$work/trainer" 2>"$work/trainer.err" ||
    fail "$1: $(cat "$work/trainer.err")"
  wait $! || fail "$1: $(cat "$work/reader.err")"
  sed 's/^\[[0-9]*\] //' "$work/trainer" "$work/reader" | grep ' ROLE_' | sort
}
roles_of "$python" -m torch.distributed.run >"$work/torchrun.roles"
roles_of "$real_ddprun" >"$work/ddprun.roles"
[ "$(wc -l <"$work/torchrun.roles")" = 9 ] || fail "torchrun's roles: $(cat "$work/torchrun.roles")"
diff "$work/torchrun.roles" "$work/ddprun.roles" || fail "< torchrun, > ddprun"

compare --nproc_per_node 2 --max_restarts 3 --role trainer --rdzv_id job
OMP_NUM_THREADS=3 TORCH_NCCL_ASYNC_ERROR_HANDLING=0 PET_ROLE=reader \
  compare --nproc_per_node 1
