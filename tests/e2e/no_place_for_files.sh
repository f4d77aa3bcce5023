#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If no temporary directory can be made, workers go without error files, and the job cannot be asked; log files are
# refused.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ "$(id -u)" = 0 ] && unshare --mount true || skip "mounts of its own take root"
unset TMPDIR XDG_RUNTIME_DIR
cat >"$work/no_place" <<'END'
for each in /tmp /dev/shm; do mount --bind $each $each && mount -o remount,bind,ro $each || exit 99; done
work=$1 && shift
mount --bind "$work" "$work" && mount -o remount,bind,rw "$work" && exec "$@"
END
command_prefix[only]="unshare --mount sh $work/no_place $work"

run sh -c 'echo "file: $TORCHELASTIC_ERROR_FILE."'
expect_exit 0
expect_stdout '^file: \.$'
expect_stderr 'cannot create a temporary directory in \$TMPDIR or /tmp: .*; workers get no TORCHELASTIC_ERROR_FILE \(give --log_dir DIR\)$'
expect_stderr 'ddprun status and the like cannot ask this job: cannot create .*: Read-only file system$'
expect_no_process_left

run --redirects 3 true
expect_exit 2
expect_stderr 'no place for log files: cannot create a temporary directory in .*; give --log_dir DIR$'
expect_no_process_left
