#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same command line starts the same workers with the same arguments under torchrun and under ddprun.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
cd "$work"

cat >show.py <<'PROGRAM'
import os, sys
names = "RANK LOCAL_RANK WORLD_SIZE GROUP_WORLD_SIZE ROLE_NAME TORCHELASTIC_MAX_RESTARTS".split()
os.write(1, f"{[os.environ[name] for name in names]} {sys.argv}\n".encode())  # one write
PROGRAM

same() {  # same COUNT OPTIONS...: COUNT workers
  local launcher
  for launcher in torchrun ddprun; do
    under "$launcher" "${@:2}"
    expect_exit 0
    sed 's/^\[[0-9]*\] //' "$out" | sort >"$launcher.lines"
  done
  [ "$(wc -l <torchrun.lines)" = "$1" ] || fail "not $1 workers"
  diff torchrun.lines ddprun.lines >difference || fail "$*: < torchrun, > ddprun: $(cat difference)"
  expect_no_process_left
}

same 2 --nproc_per_node 2 show.py -- --log '${local_rank}' '$${local_rank}' '${rank}' '$HOME' ''
same 1 -- show.py -- --nproc_per_node 4
same 2 -m --nproc-per-node=2 --max_restarts 3 --role reader show a -- b
same 2 --nnode=1 --node_rank=0 --master_port="$(free_port)" --no-python --nproc_per_node=2 \
  sh -c 'echo "$RANK" "$@"' sh '${local_rank}'
PET_NPROC_PER_NODE=2 PET_MODULE=1 PET_MAX_RESTARTS=2 PET_STANDALONE=1 same 2 --max_restarts 1 show x
same 1 --nnodes=1:2 --node_rank=1 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint="127.0.0.1:$(free_port)" \
  --rdzv-conf=last_call_timeout=1 show.py
cp show.py show  # Python, by its content alone
same 2 --nproc_per_node=2 --run_path "$PWD/show" x '${local_rank}'
PET_RUN_PATH=1 same 1 --no-python "$PWD/show.py" x
same 2 --nproc_per_node=2 --rdzv-backend=c10d --rdzv-id=8 --rdzv-endpoint="127.0.0.1:$(free_port)" \
  --rdzv-conf="'join_timeout=5,cas_backoff_max_seconds=1,last_call_timeout=1,timeout=5'" show.py
same "$(env -u OMP_NUM_THREADS nproc)" --standalone --nproc_per_node=cpu show.py
