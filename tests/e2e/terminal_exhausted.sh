#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If there are no more pseudo-terminals, workers write to pipes, and ddprun says so. Needs root.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || skip "needs root, for a mount of its own"

cat >"$work/few" <<'SH'
mount -t devpts -o newinstance,max=10,ptmxmode=666 none /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx &&
  exec "$DDPRUN" --nproc_per_node 8 sh -c 'test -t 1 && echo terminal; test -t 1 || echo pipe'
SH

on_terminal <<END
type("DDPRUN=$DDPRUN unshare --mount sh $work/few\n")
screen = expect(f"\n{prompt}")
lines = [line.split("] ")[-1] for line in screen.split("\n")]
check(lines.count("terminal") == 5 and lines.count("pipe") == 3, "not all workers have what is left")
check(screen.count("cannot create a pseudo-terminal: No space left on device") == 1, "it is not said once")
END
expect_no_process_left
