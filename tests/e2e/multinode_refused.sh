#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node with other settings is refused with the reason on both sides and ends with 2; the job continues.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
at=(--rdzv_endpoint "$here:29500" "${quick[@]}")

refused() {  # refused REGEX OPTIONS...
  on stranger run "${at[@]}" "${@:2}" sh -c 'echo started'
  expect_exit 2
  expect_stderr "$here:29500 refused this node: $1"
  expect_no_stdout started
  on master expect_stderr "refused $(hostname).*: $1"
}

on master start "${at[@]}" --rdzv_id job42 --nnodes 2 --node_rank 0 sh -c 'echo started'
IFS=. read -r -a byte <<<"$here"
wait_until grep -q "$(printf '%02X%02X%02X%02X:733C' "${byte[3]}" "${byte[2]}" "${byte[1]}" \
  "${byte[0]}") 00000000:0000 0A" /proc/net/tcp
refused "it belongs to another job than 'job43'" --rdzv_id job43 --nnodes 2 --node_rank 1
refused 'its job has --nnodes 2, this node was started with 3' --rdzv_id job42 --nnodes 3 --node_rank 1
refused 'node_rank 0 is already taken by' --rdzv_id job42 --nnodes 2 --node_rank 0
refused '--node_rank is given on .* but not here' --rdzv_id job42 --nnodes 2

exec 3<>"/dev/tcp/$here/29500"
printf 'ddprun\0\143' >&3  # version 99
wait_until grep -qE 'refused a node at .*: its protocol version is 99, the master.s [0-9]+' "$work/.master.stderr"
IFS= read -rN 100 answer <&3 || fail "no answer"
[[ $answer == *"its protocol version is 99"* ]] || fail "answer: $answer"
exec 3>&-

on other run "${at[@]}" --rdzv_id job42 --nnodes 2 --node_rank 2 sh -c 'echo started'
expect_exit 2
expect_stderr 'node_rank 2 is not one of this job.s nodes: --nnodes 2 allows 0 and 1'

on other run "${at[@]}" --rdzv_id job42 --nnodes 2 --node_rank 1 sh -c 'echo started'
expect_exit 0
on master finish
expect_exit 0
expect_stdout started
expect_no_process_left
