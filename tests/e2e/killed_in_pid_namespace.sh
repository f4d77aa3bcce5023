#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In a pid namespace of its own nothing is left of ddprun either if guardian and agent are killed at one instant,
# nor of what workers have put into other sessions.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
namespace=(unshare --map-root-user --pid --fork --kill-child --mount-proc)
"${namespace[@]}" true 2>/dev/null || skip "this user may not make a pid namespace"
command_prefix[only]="${namespace[*]}"

for victims in 'guardian agent' outer; do
  start --nproc_per_node 2 sh -c '(setsid sleep 600 &) ; sleep 600 & echo ready; wait'
  for rank in 0 1; do wait_for_stdout "\[$rank\] ready"; done
  guardian=$(pgrep -P "$ddprun")
  agent=$(pgrep -P "$guardian")
  [ "$(survivors | wc -l)" -ge 8 ] || fail "this test does not see all processes"
  case $victims in
    outer) kill -KILL "$ddprun" ;;
    *) kill -KILL "$guardian" "$agent" ;;
  esac
  finish
  [ "$code" != 0 ] || fail "it succeeded"  # unshare(1) does not always pass the signal on
  expect_no_process_left soon
done
