#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Without /proc, too, no process is left: one that a worker put into another session ends at once. So it is
# in a pid namespace that sees the outer /proc, where other processes have our pids.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || skip "sanitizers read /proc"

unshare -rm mount -t tmpfs none /proc 2>/dev/null || skip "this user may not mount over /proc"
cat >"$work/without_proc" <<'SH'
#!/bin/sh
mount -t tmpfs none /proc && exec "$@"
SH
chmod +x "$work/without_proc"
command_prefix[only]="unshare -rm $work/without_proc"

run --shutdown_timeout 3600 sh -c "setsid sh -c 'sleep 600; :' &"
expect_exit 0
expect_no_process_left
run --shutdown_timeout 0 sh -c 'setsid sh -c "trap \"\" TERM; sleep 600; :" & exit 3'
expect_exit 3
expect_no_process_left

# With pids that are no parents outside, unlike the first ones.
cat >"$work/with_high_pids" <<'SH'
#!/bin/sh
for each in $(seq 500); do /bin/true; done
"$@"
SH
chmod +x "$work/with_high_pids"
command_prefix[only]="unshare -rpf $work/with_high_pids"
run --shutdown_timeout 3600 sh -c "setsid sh -c 'sleep 600; :' & exit 3"
expect_exit 3
expect_no_process_left

# With a pid that is far from those of the others.
mkdir "$work/proc" && mkfifo "$work/far"
cat >"$work/with_far_pids" <<'SH'
#!/bin/sh
mount -t proc proc "${0%/*}/proc" && "$@"
SH
chmod +x "$work/with_far_pids"
if unshare -rpfm "$work/with_far_pids" true 2>/dev/null; then
  command_prefix[only]="unshare -rpfm $work/with_far_pids"
  # shellcheck disable=SC2016  # the worker's shell
  run --shutdown_timeout 3600 sh -c 'echo 30000 >"$0/proc/sys/kernel/ns_last_pid" || exit 4
    setsid sh -c "echo far \$\$; echo >$0/far; sleep 600; :" & read -r _ <"$0/far"; exit 3' "$work"
  expect_exit 3
  expect_stdout '^far 3[0-9]{4}$'
  expect_no_process_left
fi
