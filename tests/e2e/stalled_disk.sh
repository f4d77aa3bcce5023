#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A disk that stalls for three leases holds up what is written to it, and nothing else: no node is
# lost, no line is lost, and a failure is still handled by all nodes.
. "$(dirname "${BASH_SOURCE[0]}")/disk.sh"

# The numbers from 1 on, for as long as the job runs.
count='i=0
  while [ ! -e "$0/finish" ]; do
    echo "$((i += 1))"
    if [ -n "${FAILS:-}" ] && [ -e "$0/fail" ]; then exit 3; fi
    sleep 0.05
  done'

lines() {  # the stdout of $name, without prefixes
  sed 's/^\[[0-9]\] //' "${1:-$out}"
}

has_lines() {
  [ "$(lines | wc -l)" -ge "$1" ]
}

expect_no_line_lost() {
  lines "${1:-$out}" >"$work/lines"
  seq "$(wc -l <"$work/lines")" | cmp - "$work/lines" || fail "lines are lost or torn: ${1:-$out}"
}

start_node() {  # start_node NAME OPTIONS...
  start --nnodes 4 --rdzv_endpoint "$here:29500" "${quick[@]}" "${@:2}" bash -c "$count" "$work"
}

# The master's console, one node's log files and one node's events are on the disk.
start_all() {
  on master
  out=$disk/out err=$disk/err
  start_node master --rdzv_conf is_host=true
  on logging start_node logging --rdzv_conf is_host=false --log_dir "$disk/logs" --tee 3
  command_prefix[recording]='env FAILS=1'
  on recording
  events=$disk/events
  start_node recording --rdzv_conf is_host=false
  on healthy start_node healthy --rdzv_conf is_host=false
  for node in logging recording healthy; do on $node wait_until has_lines 3; done
}

expect_ends() {  # expect_ends CODE
  for node in master logging recording healthy; do
    on $node finish
    expect_exit "$1"
  done
  expect_no_process_left
  expect_no_line_lost "$disk/out"
  for node in logging recording healthy; do on $node expect_no_line_lost; done
  on logging true
  cmp <(lines) "$(echo "$disk"/logs/*/attempt_0/0/stdout.log)" || fail "the log file is not the output"
  rm -r "$disk/logs"
}

disk
start_all
freeze
on healthy true
wait_until has_lines $(($(lines | wc -l) + 240))  # 12 s at least: three leases
for node in master logging healthy; do
  on $node true
  ! has_event worker_ended || fail "a worker has ended"
done
thaw
: >"$work/finish"
expect_ends 0
[ "$(grep -c '"event":"worker_ended"' "$disk/events")" = 1 ] || fail "an event is lost"

rm "$work/finish"
start_all
freeze
: >"$work/fail"
for node in master logging healthy; do on $node wait_for_event round_stopping; done
thaw
expect_ends 3
