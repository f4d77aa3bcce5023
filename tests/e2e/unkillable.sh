#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker that SIGKILL does not end, because it waits for a disk, is named while ddprun waits for it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

disk=$work/disk
thaw_disk() { fsfreeze -u "$disk" 2>/dev/null; umount "$disk" 2>/dev/null; }
at_exit+=(thaw_disk)
mkdir "$disk"
truncate -s 8M "$work/image"
mkfs.ext4 -q "$work/image" 2>/dev/null && mount -o loop "$work/image" "$disk" 2>/dev/null &&
  fsfreeze -f "$disk" 2>/dev/null || skip "this user may not freeze a disk of its own"

start --shutdown_timeout 0 sh -c 'echo ready; echo data >"$0"' "$disk/file"
wait_for_stdout ready
worker=$(worker_of)
sleeps() { grep -q '^State:[[:space:]]*D' "/proc/$worker/status"; }
wait_until sleeps
kill -TERM "$ddprun"
wait_for_stderr "rank 0 to end after SIGKILL: pid $worker \(sh\) is in uninterruptible sleep \(D\)"

# The same for the guardian.
kill -KILL "$(agent_of)"
wait_for_stderr "^ddprun: waiting 5 s for processes to end after SIGKILL: pid $worker \(sh\) is in uninterruptible sleep \(D\)"
fsfreeze -u "$disk"
finish
expect_exit 137
expect_no_process_left
