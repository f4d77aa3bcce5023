#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A host of --hosts on which ddprun never starts, as its login shell waits for a dead file server: lines name it, and
# neither the job's time limit nor its end waits for it. Lines also name a host whose login shell reads the order, and
# those that are slow to end.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cat >"$work/ssh" <<'END'
#!/bin/bash
[ "${*: -2:1}" != never ] || exec sleep 1000
[ "${*: -2:1}" != reads ] || read -r _
if [ "${*: -2:1}" = delayed ]; then
  exec 3> >(until [ -e "${0%/*}/arrives" ]; do sleep 0.1; done; exec cat >&2)
  (eval "${*: -1}") 2>&3 3>&-
  exec 3>&-
  wait $!
else
  eval "${*: -1}"
fi
END
chmod +x "$work/ssh"
ssh=(--ssh "$work/ssh" --rdzv_endpoint "$here:29500")

run "${ssh[@]}" --hosts never --join_timeout 1 sleep 1000
expect_exit 125
expect_stderr '^ddprun: host never: ddprun did not start there within 1 s \(--join_timeout\)$'
expect_no_process_left

run "${ssh[@]}" --hosts here,never --nnodes 1:2 --last_call_timeout 0 true
expect_exit 0
expect_stderr '^ddprun: host never: ddprun did not start there before the job ended$'
expect_no_process_left

# A host's message may arrive when the job has succeeded: the host has started all the same.
start "${ssh[@]}" --hosts here,delayed true
expect_stderr '^ddprun: waiting 5 s for ddprun to end on delayed$'
touch "$work/arrives"
finish
expect_exit 0
expect_no_stderr 'did not start'
expect_no_process_left

start "${ssh[@]}" --hosts never,here sleep 1000
expect_stderr '^ddprun: waiting 5 s for ddprun to start on never; giving up after 10 min \(--join_timeout\)$'
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left

run "${ssh[@]}" --hosts reads true
expect_exit 125
expect_stderr '^ddprun: host reads: invalid order .* a start-up file of the login shell, such as ~/.bashrc, has read stdin$'
expect_no_process_left

# shellcheck disable=SC2016
start "${ssh[@]}" --hosts here sh -c 'trap "" TERM; echo runs; until [ -e "$0" ]; do sleep 0.1; done' "$work/end"
wait_for_stdout runs
kill -TERM "$ddprun"
expect_stderr '^ddprun: waiting 5 s for ddprun to end on here$'
touch "$work/end"
finish
expect_exit 143
expect_no_process_left
