#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With a secret only root may trace ddprun, and /proc with hidepid hides such processes from their own user: the
# guardian finds its agent and the workers all the same, and stops and continues them.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ "$(id -u)" = 0 ] || skip "to be another user takes root"
[ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || skip "sanitizers read their own process in /proc"

chmod 711 "$work"
export TMPDIR=$work/tmp XDG_RUNTIME_DIR=$work/tmp
mkdir -m 1777 "$TMPDIR"
cat >"$work/hidden" <<'SH'
#!/bin/sh
mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 54321 --regid 54321 --clear-groups "$@"
SH
chmod 755 "$work/hidden"
unshare -m "$work/hidden" true 2>/dev/null || skip "this user may not mount a /proc with hidepid"
DDPRUN_SECRET=$("$DDPRUN" secret)
export DDPRUN_SECRET

command_prefix[hidden]="unshare -m $work/hidden"
on hidden chmod 666 "$work/.hidden.events"
on hidden start sh -c 'echo up; exec sleep 600'
wait_for_stdout '^up$'
worker=$(worker_of 0)
has_state() { grep -q "^State:[[:space:]]*$1" "/proc/$worker/status"; }
kill -TSTP "$ddprun"
wait_until has_state T
kill -CONT "$ddprun"
wait_until has_state S
kill -TERM "$ddprun"
finish
expect_exit 143
expect_no_process_left
