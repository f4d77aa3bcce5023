#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker that is stopped by a signal is reported at once. When another one fails while it waits for it,
# both nodes name the stopped one first; a failure of another kind accuses nobody.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

worker='
  trap "exit 1" TERM
  if [ "$RANK" = 1 ]; then kill -STOP $$; fi
  until [ -e "$0" ]; do sleep 0.05; done
  if [ "$RANK" = 0 ]; then echo "$1" >&2; exit 5; fi
  while :; do sleep 600 & wait; done'

two_nodes() {  # two_nodes LAST_WORDS: of rank 0, when rank 1 of the other node is known to be stopped
  rm -f "$work/go"
  for node in a b; do
    on "$node" start "${quick[@]}" --nnodes 2 --node_rank "$([ "$node" = a ] && echo 0 || echo 1)" \
      --rdzv_endpoint "$here" bash -c "$worker" "$work/go" "$1"
  done
  on b wait_for_stderr '^ddprun: \[[^ ]+\] rank 1 \([^ ]+, pid [0-9]+\) is stopped by SIGSTOP; to continue it: kill -CONT'
  touch "$work/go"
  for node in a b; do on "$node" finish; done
}

two_nodes 'RuntimeError: Timed out waiting 1800000ms for recv operation to complete'
for node in a b; do
  on "$node" expect_exit 5
  on "$node" expect_stderr "^ddprun: \[[^ ]+\] rank 1 \($(hostname)\) is the likely cause: stopped by a signal \(state T\) for .*, while rank 0 waited$"
  on "$node" expect_stderr '^        rank 0 failed first: exit 5 '
done

two_nodes 'step 812: loss nan'
for node in a b; do
  on "$node" expect_exit 5
  on "$node" expect_stderr '^ddprun: \[[^ ]+\] rank 0 failed first: exit 5 '
  on "$node" expect_no_stderr 'likely cause'
done
expect_no_process_left
