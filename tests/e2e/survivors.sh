#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# While ddprun waits for a process that SIGKILL does not end, it says within seconds which one that is, and why; and then
# that it has ended. So does the guardian of an agent that was killed.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ "$(id -u)" = 0 ] || skip "a process that ddprun may not end is another user's"

chmod 755 "$work"
holders=()
let_go() { kill -KILL "${holders[@]}" 2>/dev/null; }
at_exit+=(let_go)

# A survivor of another user: the program becomes root by its set-user-ID bit.
user=(--reuid 65534 --regid 65534 --clear-groups)
install -m 4755 "$(command -v setpriv)" "$work/as_root"
can_become_root() { setpriv "${user[@]}" "$work/as_root" --reuid 0 true 2>/dev/null; }
cat >"$work/hidden" <<'SH'
#!/bin/sh
mount -t proc -o hidepid=2 proc /proc && exec "$@"
SH
chmod 755 "$work/hidden"
begin_of_root() {  # begin_of_root [PREFIX]
  chown 65534 "$out" "$err" "$events"
  # shellcheck disable=SC2034  # read by start
  command_prefix[$name]="${1:-} setpriv ${user[*]}"
  # shellcheck disable=SC2016  # the worker's shell
  start --shutdown_timeout 0.3 sh -c 'setsid "$0" --reuid 0 sh -c "echo ready \$\$; read -r _ <$1; :" &
    read -r _ <"$1.$2"; exit 3' "$work/as_root" "$work/never" "$name"
  wait_for_stdout 'ready [0-9]+$'
  survivor=$(sed -n 's/.*ready //p' "$out")
  why="pid $survivor \(sh\) runs as root, and ddprun may not end it"
}
mkfifo -m 666 "$work/never" "$work/never.of_root" "$work/never.of_root_left" "$work/never.hidden"
exec 3<>"$work/never"

mkfifo "$work/go"

# A survivor that a tracer other than ddprun holds, after its end or at its last moment.
begin_traced() {  # begin_traced KIND [PROGRAM]
  start --shutdown_timeout 0 sh -c "echo ready; ${2:-exec sleep 600}"
  wait_for_stdout '^ready$'
  survivor=$(worker_of)
  "$DDPRUN_BIN/odd_process" "$1" "$survivor" >"$work/$name.tracer" &
  tracer=$!
  holders+=("$tracer")
  wait_until grep -q ready "$work/$name.tracer"
}

# Frozen, where control groups of version 1 are there: those of version 2 let it end.
frozen=/sys/fs/cgroup/freezer/ddprun-survivors-$$
thaw() { echo THAWED >"$frozen/freezer.state" && rmdir "$frozen"; } 2>/dev/null
at_exit+=(thaw)
begin_frozen() {
  start --shutdown_timeout 0 sh -c 'echo ready; exec sleep 600'
  wait_for_stdout '^ready$'
  survivor=$(worker_of)
  echo "$survivor" >"$frozen/cgroup.procs"
  echo FROZEN >"$frozen/freezer.state"
  is_frozen() { grep -q FROZEN "$frozen/freezer.state"; }
  wait_until is_frozen
}

if mkdir "$frozen" 2>/dev/null && [ -e "$frozen/freezer.state" ]; then
  on frozen begin_frozen
  kill -TERM "$ddprun"
  wait_for_stderr "waiting 5 s for rank 0 to end after SIGKILL: pid $survivor \(sleep\) is frozen by its control group$"
  echo THAWED >"$frozen/freezer.state"
  finish
  expect_exit 143
  expect_stderr '^ddprun: all processes of the workers have ended after '
fi

on ended begin_traced tracer
why_ended="pid $survivor \(sleep\) has ended, but pid $tracer \(odd_process\), which traces it, has not let it go"
agent=$(agent_of)
kill -TERM "$ddprun"
on at_its_end begin_traced tracer_of_exit
why_at_its_end="pid $survivor \(sleep\) is held by pid $tracer \(odd_process\), which traces it"
kill -TERM "$ddprun"
on succeeds begin_traced tracer "read -r _ <$work/go; exit 0"
why_succeeds="pid $survivor \(sh\) has ended, but pid $tracer \(odd_process\), which traces it, has not let it go"
echo >"$work/go"
on guardian begin_traced tracer
why_guardian="pid $survivor \(sleep\) has ended, but pid $tracer \(odd_process\), which traces it, has not let it go"
kill -KILL "$(agent_of)"
on agent_traced start --shutdown_timeout 0 sh -c 'echo ready; exec sleep 600'
wait_for_stdout '^ready$'
traced_agent=$(agent_of)
"$DDPRUN_BIN/odd_process" tracer "$traced_agent" >"$work/agent.tracer" &
holders+=($!)
wait_until grep -q ready "$work/agent.tracer"
kill -KILL "$traced_agent"
if can_become_root; then
  on of_root begin_of_root
  why_of_root=$why of_root=$survivor
  echo >"$work/never.of_root"
  on of_root_left begin_of_root
  why_of_root_left=$why of_root_left=$survivor
  kill -KILL "$(agent_of)"
  if [ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] && unshare -m "$work/hidden" true 2>/dev/null; then  # they read /proc
    on hidden begin_of_root "unshare -m $work/hidden"
    hidden=$survivor
    echo >"$work/never.hidden"
  fi
fi

on ended wait_for_stderr "waiting 5 s for rank 0 to end after SIGKILL: $why_ended$"
on at_its_end wait_for_stderr "waiting 5 s for rank 0 to end after SIGKILL: $why_at_its_end$"
on succeeds wait_for_stderr "waiting 5 s for the end of a worker: $why_succeeds$"
on guardian wait_for_stderr "waiting 5 s for processes to end after SIGKILL: $why_guardian$"
on agent_traced wait_for_stderr "waiting 5 s for processes to end after SIGKILL: pid $traced_agent \(ddp-agent.*\) has ended, but pid"
on ended wait_for_stderr 'waiting 10 s for'
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
[ "$(ticks "$agent")" -lt 500 ] || fail "the agent spins while it waits"
let_go
for each in ended at_its_end; do
  on $each finish
  expect_exit 143
  expect_stderr '^ddprun: all processes of the workers have ended after '
done
on succeeds finish
expect_exit 0
expect_stderr '^ddprun: its tracer has let the worker go after '
for each in guardian agent_traced; do
  on $each finish
  expect_exit 137
  expect_stderr '^ddprun: all processes have ended after '
done

if can_become_root; then
  on of_root wait_for_stderr "processes the workers left behind did not stop within 300 ms \(--shutdown_timeout\): $why_of_root$"
  wait_for_stderr "waiting 5 s for processes the workers left behind to end after SIGKILL: $why_of_root$"
  expect_no_stderr 'killed$'
  kill -KILL "$of_root"
  finish
  expect_exit 3
  expect_stderr '^ddprun: all processes of the workers have ended after '
  if [ -n "${hidden:-}" ]; then
    on hidden wait_for_stderr "waiting 5 s for processes .*: pid $hidden runs as another user, and ddprun may not end it$"
    kill -KILL "$hidden"
    finish
    expect_exit 3
  fi
  on of_root_left wait_for_stderr "waiting 5 s for processes to end after SIGKILL: $why_of_root_left$"
  kill -KILL "$of_root_left"
  finish
  expect_exit 137
  expect_stderr '^ddprun: all processes have ended after '
fi
expect_no_process_left
