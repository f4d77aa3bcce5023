#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node that is not the master answers for the whole job: the status of all ranks, the output of a rank
# elsewhere, and the end of the job on all nodes, also of a rendezvous that runs alone.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

try() {  # try NODE VERB...: of its ddprun, as others may run here; the output is in $asked
  asked=$(XDG_RUNTIME_DIR=$work/run.$1 "$DDPRUN" "${@:2}" "${pids[$1]}" 2>&1)
}

ask() {  # ask NODE CODE VERB...
  local got=0
  try "$1" "${@:3}" || got=$?
  [ $got = "$2" ] || fail "ddprun ${*:3}: exit code $got, expected $2: $asked"
}

expect_asked() {
  grep -qE -- "$1" <<<"$asked" || fail "no line like '$1' in: $asked"
}

# shellcheck disable=SC2016
worker='echo "here is rank $RANK"
  until [ -e "$0" ]; do sleep 0.05; done
  # Rank 3 needs longer than --lease, on the node that does not host the master.
  [ "$RANK" != 3 ] || trap "sleep 8; echo saved; exit 0" TERM
  echo "again $RANK"; while :; do sleep 600 & wait; done'

begin() {  # begin NODE...
  for node in "$@"; do
    mkdir -p -m 700 "$work/run.$node"
    export XDG_RUNTIME_DIR=$work/run.$node
    on "$node" start "${quick[@]}" --nnodes 2 --nproc_per_node 2 --rdzv_id both \
      --rdzv_endpoint "$here:$port" bash -c "$worker" "$work/go"
  done
}

waits_for_others() { try "$name" status && [[ $asked =~ 'waiting for 1 of 2 nodes' ]]; }
answers_alone() { try "$name" status && [[ $asked =~ 'which cannot be reached now' ]]; }

port=29400
begin a
on a wait_until waits_for_others
begin b
for node in a b; do on "$node" wait_for_stdout 'here is rank'; done
all_run() { try "$1" status && [ "$(grep -c '^[0-9].* running ' <<<"$asked")" = 4 ]; }
for node in a b; do
  on "$node" wait_until all_run "$node"
  expect_asked '4 ranks on 2 nodes, round 0'
  for rank in 0 1 2 3; do
    has_written() { try "$node" logs "$rank" && [ "$asked" = "here is rank $rank" ]; }
    on "$node" wait_until has_written
  done
  ask "$node" 1 logs 4
  expect_asked 'there is no rank 4: this job has ranks 0 to 3'
done

for rank in 0 3; do
  XDG_RUNTIME_DIR=$work/run.b "$DDPRUN" logs -f "$rank" "${pids[b]}" >"$work/follow.$rank" 2>&1 &
  followers+=($!)
done
touch "$work/go"
for rank in 0 3; do on b wait_until grep -qx "again $rank" "$work/follow.$rank"; done

ask b 0 stop
for node in a b; do
  on "$node" finish
  on "$node" expect_exit 143
  on "$node" expect_stderr '^ddprun: \[[^ ]+\] stopping the whole job, as ddprun stop asks$'
done
on b expect_stdout 'saved$'
on a expect_stderr 'waiting [0-9.]+ s for .* to acknowledge the end of the job$'
wait "${followers[@]}" || fail "ddprun logs -f does not end well with its job"

# With a rendezvous of its own.
port=29401
rm "$work/go"
on s start serve "${quick[@]}" --nnodes 2 --rdzv_id both --rdzv_endpoint "$here:$port"
on s wait_for_event serving
begin c d
on d wait_until all_run d
ask c 0 stop
for node in c d s; do
  on "$node" finish
  on "$node" expect_exit 143
done

# While the master cannot be reached a node answers for itself. It keeps its port, which the node would take.
port=29402
on gone start serve "${quick[@]}" --nnodes 2 --rdzv_id both --rdzv_endpoint "$here:$port"
on gone wait_for_event serving
begin e
on e wait_until waits_for_others
kill -STOP "$(on gone agent_of)"
on e wait_until answers_alone
kill -TERM "${pids[e]}"
on e finish
on e expect_exit 143
kill -KILL "$(on gone agent_of)" "${pids[gone]}"
on gone finish
expect_no_process_left
