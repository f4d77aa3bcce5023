#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No process outlives ddprun, whatever it does to be hard to find or to end, whether ddprun ends by itself, by a signal
# or by the death of its agent or guardian, and whatever of them /proc shows.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

export DDPRUN_BIN
kinds=(main_thread_gone vfork subreaper runaway refusing stopped traced)
cat >"$work/worker" <<'END'
for kind in "$@"; do setsid "$DDPRUN_BIN/odd_process" "$kind" & done
for kind in "$@"; do "$DDPRUN_BIN/odd_process" "$kind" & done
unshare -rpf "$DDPRUN_BIN/odd_process" refusing &
read -r code && exit "$code"
END
mkfifo "$work/end"

begin() {
  exec 3<>"$work/end"
  start --shutdown_timeout 0.5 sh "$work/worker" "${kinds[@]}" <"$work/end"
  all_ready() { [ "$(grep -c 'is ready$' "$out")" -ge $((2 * ${#kinds[@]})) ]; }
  wait_until all_ready
}

end() {  # end HOW
  case $1 in
    succeeds) echo 0 >&3 ;;
    fails) echo 3 >&3 ;;
    stopped) kill -TERM "$ddprun" ;;
    agent_killed) kill -KILL "$(pgrep -P "$ddprun")" ;;
    guardian_killed) kill -KILL "$ddprun" ;;
  esac
  finish
  case $1 in
    succeeds) expect_exit 0 && expect_stderr 'stopping processes the workers left behind \(SIGTERM, and SIGKILL after 500 ms, --shutdown_timeout\): ' ;;
    fails) expect_exit 3 ;;
    stopped) expect_exit 143 ;;
    *_killed) expect_exit 137 ;;
  esac
  if [ "$1" = guardian_killed ]; then expect_no_process_left soon; else expect_no_process_left; fi
}

for how in succeeds fails stopped agent_killed guardian_killed; do
  on "$how" begin
  end "$how"
done

[ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || exit 0  # sanitizers read /proc
cat >"$work/without_proc" <<'SH'
#!/bin/sh
mount -t tmpfs none /proc && exec "$@"
SH
chmod +x "$work/without_proc"
unshare -rm "$work/without_proc" true 2>/dev/null || exit 0
kinds=(main_thread_gone vfork subreaper refusing stopped traced)  # one that runs away may be ahead of the search
for how in succeeds fails stopped agent_killed guardian_killed; do
  command_prefix[without_proc_$how]="unshare -rm $work/without_proc"
  on "without_proc_$how" begin
  end "$how"
done
