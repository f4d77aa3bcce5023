#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The table of README that compares ddprun with torchrun and mpirun is true, line by line. The line about nodes that
# join and leave is `launcher_behaviours` for the first two; mpirun has no flag for it. That ddprun starts all nodes
# is `netns_ssh` and `netns_slurm`; of the others their help is asked.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
command -v mpirun >/dev/null && command -v mpicc >/dev/null || skip "there is no mpirun or mpicc"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
add_launcher mpirun mpirun --oversubscribe --mca btl self,vader
cd "$work"

under_each() {  # under_each COMMAND...: with two workers; sets `codes_of`
  local launcher
  codes_of=''
  for launcher in ddprun torchrun mpirun; do
    case $launcher in
      mpirun) under mpirun -n 2 "$@" ;;
      *) under "$launcher" --nproc_per_node 2 --no_python "$@" ;;
    esac
    codes_of+=" $code"
    sed -n 's/.*\(size [0-9]*\).*/\1/p' "$out" | sort -u >"$launcher.sizes"
  done
}

grep -qF '| needs | libc | Python, PyTorch | Open MPI'"'"'s libraries |' "$interop/../../README.md" || fail "README has another table"
[ "$(ldd "$real_ddprun" | grep -c '=>')" = 1 ] || fail "ddprun needs more than libc: $(ldd "$real_ddprun")"
[[ $(ldd "$(command -v mpirun)") = *libopen-rte* ]] || fail "mpirun needs no library of Open MPI"

# The exit code after `exit 3` of a worker.
under_each sh -c 'exit 3'
[ "$codes_of" = ' 3 1 3' ] || fail "exit codes: $codes_of"

# A program that calls MPI_Init: one job, or two of one rank.
cat >size.c <<'PROGRAM'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("size %d\n", size);
  return MPI_Finalize();
}
PROGRAM
mpicc -o size size.c
under_each "$work/size"
[ "$codes_of" = ' 0 0 0' ] || fail "exit codes: $codes_of"
[ "$(cat ddprun.sizes torchrun.sizes mpirun.sizes)" = $'size 2\nsize 1\nsize 2' ] || fail "sizes of MPI_COMM_WORLD"

# The launcher is killed: what is left of worker and child.
printf '#!/bin/sh\nsleep 600 &\necho "$$ $!" >"$0.$RANK$OMPI_COMM_WORLD_RANK"\nexec sleep 600\n' >stays
chmod +x stays
left_after_kill() {  # left_after_kill LAUNCHER: prints how many of two workers and their children
  local pids
  rm -f stays.?
  if [ "$1" = mpirun ]; then under_start=("$work/mpirun" - - -n 2); fi
  if [ "$1" = torchrun ]; then under_start=("$work/torchrun" - - --nproc_per_node 2 --no_python); fi
  if [ "$1" = ddprun ]; then under_start=("$real_ddprun" --nproc_per_node 2); fi
  env "$mark" "${under_start[@]}" "$work/stays" &>/dev/null &
  local launcher=$!
  until [ -s stays.0 ] && [ -s stays.1 ]; do sleep 0.05; done
  kill -KILL $launcher
  wait $launcher 2>/dev/null || true
  pids=$(cat stays.0 stays.1)
  if [ "$1" = ddprun ]; then
    # shellcheck disable=SC2086
    while kill -0 $pids 2>/dev/null; do sleep 0.05; done
  fi
  left=0
  for pid in $pids; do ! kill -0 "$pid" 2>/dev/null || left=$((left + 1)); done
  kill_leftovers
}
for launcher in ddprun torchrun mpirun; do
  left_after_kill $launcher
  case $launcher in
    ddprun) [ $left = 0 ] || fail "$left processes are left by ddprun" ;;
    *) [ $left = 4 ] || fail "of 4 processes $left are left by $launcher" ;;
  esac
done

# Restarts: rank 0 fails in the first round, rank 1 in the second. Where each node counts its own, one restart is enough.
cat >fails_in_turn <<'PROGRAM'
#!/bin/sh
# In the folder $1; the first to make a folder there is the first to fail.
case $RANK in
  0) mkdir "$1/a" 2>/dev/null && exit 1
     touch "$1/again"; until [ -e "$1/done" ]; do sleep 0.05; done ;;
  1) until [ -e "$1/again" ]; do sleep 0.05; done
     mkdir "$1/b" 2>/dev/null && exit 1
     touch "$1/done" ;;
esac
PROGRAM
chmod +x fails_in_turn
restarts() {  # restarts LAUNCHER N CODE: of two nodes
  local folder endpoint node
  folder=$(new_folder)
  endpoint=127.0.0.1:$(free_port)
  for node in 0 1; do
    on "$1$2$node" true
    DDPRUN=$real_ddprun
    [ "$1" = ddprun ] || DDPRUN=$work/$1
    start --nnodes 2 --rdzv_backend c10d --rdzv_endpoint "$endpoint" --rdzv_id "r$2" --max_restarts "$2" \
      --no_python "$work/fails_in_turn" "$folder"
  done
  for node in 0 1; do
    on "$1$2$node" finish
    [ "$code" = "$3" ] || fail "$1 with --max_restarts $2: exit code $code"
  done
  kill_leftovers
}
restarts ddprun 1 1
restarts ddprun 2 0
restarts torchrun 1 0

mpirun --help all >mpirun.help 2>/dev/null || true
"$python" -m torch.distributed.run --help >torchrun.help
grep -q -- '--host <' mpirun.help || fail "mpirun starts no other hosts"
! grep -qE -- '--host(s|file)?[ =]' torchrun.help || fail "torchrun starts other hosts"
! grep -qi 'restart the workers' mpirun.help || fail "mpirun restarts workers"
expect_no_process_left
