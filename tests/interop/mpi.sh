#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs of the MPIs that PyPI has, in C and in Python, are one job on one node and on two, also after a restart, and
# the code of MPI_Abort is the job's. Open MPI's ranks may survive others.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
mpis=$environment/mpi
DDPRUN=$real_ddprun
export LD_LIBRARY_PATH
cat >"$work/sum.py" <<'END'
from mpi4py import MPI
world = MPI.COMM_WORLD
print(f"rank {world.rank} of {world.size}: {world.allreduce(world.rank)}", flush=True)
END

# Ranks that connect to each other a second time, by a socket of their own
cat >"$work/join.py" <<'END'
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.rank == 0:
    listener = socket.create_server(("127.0.0.1", 0))
    world.bcast(listener.getsockname())
    line, _ = listener.accept()
else:
    line = socket.create_connection(world.bcast(None))
try:
    other = MPI.Comm.Join(line.fileno())
    print("joined", other.sendrecv(world.rank, 0, source=0), flush=True)
    other.Disconnect()
except MPI.Exception:
    print("refused", flush=True)
END

compile() {  # compile MPI; Intel's runtime has no compiler, and MPICH's ABI
  local from=${1/impi-rt/mpich}
  PATH=$mpis/$from/bin:$PATH OPAL_PREFIX=$mpis/$from mpicc -o "$work/world" "$interop/../e2e/mpi_world.c"
}

on_nodes() {  # on_nodes NODES CODE PROGRAM...
  local node endpoint
  endpoint=127.0.0.1:$(free_port)
  for ((node = 0; node < $1; ++node)); do
    on "$node" start "${quick[@]}" --nnodes "$1" --node_rank $node --rdzv_endpoint "$endpoint" --nproc_per_node 2 "${@:3}"
  done
  for ((node = 0; node < $1; ++node)); do on "$node" finish && expect_exit "$2"; done
}

on_two_nodes() {  # on_two_nodes CODE PROGRAM...
  on_nodes 2 "$@"
}

for mpi in mpich mpich4 openmpi impi-rt; do
  [ -d "$mpis/$mpi" ] || fail "no $mpi: scripts/setup --interop installs it"
  echo "$mpi" >&2
  compile "$mpi"
  LD_LIBRARY_PATH=$mpis/$mpi/lib
  export OPAL_PREFIX=$mpis/openmpi
  on only run --nproc_per_node 3 "$work/world"
  expect_exit 0
  for rank in 0 1 2; do expect_stdout "rank $rank of 3, 3 on its node, sum 3, RANK $rank, "; done
  on only run --nproc_per_node 2 --max_restarts 1 "$work/world" kill 1
  expect_exit 0
  expect_stdout 'rank 0 of 2, 2 on its node, sum 1, RANK 0, restart 1$'
  on only run --nproc_per_node 2 "$work/world" abort 1
  expect_exit 3
  expect_stderr 'rank 1 failed first: exit 3 .*: called MPI_Abort\(3\)$'
  on only run --nproc_per_node 2 --mpi both "$work/sum.py"
  expect_exit 0
  expect_stdout 'rank 1 of 2: 1$'
  I_MPI_SPAWN=1 on only run --nproc_per_node 2 --mpi both "$work/join.py"
  expect_exit 0
  if [ $mpi = openmpi ]; then
    [ "$(grep -c refused "$out")" = 2 ] || fail "the ranks joined"
    expect_stderr 'rank 1 published or looked up a name .* which ddprun does not serve'
  else
    expect_stdout '^\[0\] joined 1$'
    expect_stdout '^\[1\] joined 0$'
  fi
  on_two_nodes 0 "$work/world"
  on 1 expect_stdout 'rank 3 of 4, 2 on its node, sum 6, RANK 3, '
  on_two_nodes 3 "$work/world" abort 2
  on 0 expect_stderr 'rank 2 failed first: exit 3 .*: called MPI_Abort\(3\)$'
done

# Communicators that are made from groups, without MPI_COMM_WORLD. They need libpmix 5, which this program has not
# beside it.
cat >"$work/group.py" <<'END'
from mpi4py import MPI
group = MPI.COMM_WORLD.Get_group()
for turn in range(2):
    made = MPI.Intracomm.Create_from_group(group, "all")
    print(f"turn {turn}: rank {made.rank} of {made.size}: {made.allreduce(1)}", flush=True)
    made.Free()
MPI.Intracomm.Create_from_group(group.Incl([group.rank]), "alone").Free()
END
LD_LIBRARY_PATH=$mpis/openmpi/lib:$mpis/openmpi/lib/openmpi
on only run --nproc_per_node 2 --mpi pmix "$work/group.py"
expect_exit 0
expect_stdout 'turn 1: rank 1 of 2: 2$'
on_two_nodes 0 --mpi pmix "$work/group.py"
on 1 expect_stdout 'turn 1: rank 3 of 4: 4$'

# Groups of one name may be of different ranks, and of other nodes.
cat >"$work/pairs.py" <<'END'
from mpi4py import MPI
group = MPI.COMM_WORLD.Get_group()
for pair in (0, 2), (0, 4), (2, 4), (0, 2):
    if group.rank in pair:
        made = MPI.Intracomm.Create_from_group(group.Incl(pair), "pair")
        print(f"{pair}: {made.allreduce(group.rank)}", flush=True)
        made.Free()
END
on_nodes 3 0 --mpi pmix "$work/pairs.py"
on 0 expect_stdout '^\[0\] \(0, 4\): 4$'
on 2 expect_stdout '^\[4\] \(2, 4\): 6$'

# If a program asks for a name, it gets an error, and continues.
cat >"$work/unserved.py" <<'END'
from mpi4py import MPI
for call in (lambda: MPI.Publish_name("service", MPI.Open_port()), lambda: MPI.COMM_SELF.Accept(MPI.Open_port())):
    try:
        call()
    except MPI.Exception:
        print("refused", flush=True)
END
on only run --nproc_per_node 2 --mpi "$work/unserved.py"
expect_exit 0
expect_stderr 'rank 1 published or looked up a name .* which ddprun does not serve'
[ "$(grep -c refused "$out")" = 4 ] || fail "not each call was refused"

# Ranks of Open MPI that survive others, by ULFM.
LD_LIBRARY_PATH=$mpis/openmpi/lib
PATH=$mpis/openmpi/bin:$PATH mpicc -o "$work/survivors" "$interop/mpi_survivors.c"
on only run --mpi_ft --nproc_per_node 3 "$work/survivors" kill 1
expect_exit 0
expect_stdout 'rank 2 is one of 2 that are left$'
expect_stderr 'rank 1 .* is lost: killed by SIGKILL; the others continue without it \(--mpi_ft\)$'
on only run --mpi_ft --nproc_per_node 3 "$work/survivors" naive 1
expect_exit 75
expect_stderr 'failed first: exit 75 .*: called MPI_Abort\(75\), after the loss of rank 1 \(killed by SIGKILL\)$'
on only run --mpi_ft --max_restarts 1 --nproc_per_node 2 "$work/survivors" kill 0 1
expect_exit 137
expect_stderr 'failed first: killed by SIGKILL .*: after the loss of rank [01] \(killed by SIGKILL\)$'
on_two_nodes 0 --mpi_ft "$work/survivors" exit 0
on 1 expect_stdout 'rank 3 is one of 3 that are left$'
on_two_nodes 0 --mpi_ft "$work/survivors" kill 2 3  # one node has none left
on 0 expect_stdout 'rank 1 is one of 2 that are left$'
on_two_nodes 137 --mpi_ft "$work/survivors" kill 0 1 2 3
expect_no_process_left
