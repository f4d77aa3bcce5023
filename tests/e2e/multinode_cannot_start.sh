#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# That a node cannot start its workers is told to all, as a failure of one of them: the others neither wait for
# it nor guess.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
at=(--rdzv_endpoint "$here:29500" "${quick[@]}" --nproc_per_node 2)
declare -A rank=([a]=0 [b]=1) limits
mkdir "$work/a" "$work/b"
printf '#!/bin/sh\nexec sleep 600\n' >"$work/a/train"
chmod +x "$work/a/train"

both() {  # CODE REASON, with ${options[@]}
  for node in a b; do
    command_prefix[$node]="env -C $work/$node ${limits[$node]:-}"
    on "$node" start "${at[@]}" --node_rank "${rank[$node]}" "${options[@]}" ./train --lr 1
    [ $node = b ] || wait_for_event job_started
  done
  for node in a b; do
    on "$node" finish
    expect_exit "$1"
    expect_stderr "rank [23] failed first: it could not be started \\(host .*, round [01]\\): $2"
    expect_stderr 'ranks 0.* were stopped by ddprun \(SIGTERM'
  done
  same_report a b
}
options=(--nnodes 2)

both 127 'cannot run ./train: no such file'
on b expect_stderr 'cannot run ./train: no such file; the other nodes are notified when they join'

printf '#!/no/such/interpreter\n' >"$work/b/train"
chmod +x "$work/b/train"
options=(--nnodes 2 --max_restarts 1)
both 126 'cannot execute ./train: .*interpreter does not'
expect_stderr 'no restart left \(1 of 1 used\)'

if [ -z "${UBSAN_OPTIONS:-}" ]; then  # UBSan reads objects through a pipe: it needs descriptors, too
  options=(--nnodes 2)
  cp "$work/a/train" "$work/b/train"
  limits[b]='prlimit --nofile=26:26'
  both 125 '.*Too many open files'
fi
expect_no_process_left
