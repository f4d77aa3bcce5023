#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One command starts a job on several hosts, each with a real sshd: its output and exit code are
# here, each host that cannot take part is named with what to do, a secret reaches all of them, and
# whichever process is killed, nothing stays on any host.
. "$(dirname "${BASH_SOURCE[0]}")/netns_sshd.sh"
hosts 5 4

# On a host that differs from the first one, another folder lies over one of these.
mkdir "$work/bin" "$work/other" "$work/empty" "$work/places" "$work/places/here"
cp "$DDPRUN" "$work/bin/ddprun"
cat >"$work/other/ddprun" <<'END'
#!/bin/sh
echo "ddprun: unknown flag $1; ddprun --help lists all flags" >&2
exit 2
END
chmod +x "$work/other/ddprun"

serve_ssh 2
serve_ssh 3
serve_ssh 4 "$work/empty" "$work/bin"
serve_ssh 5 "$work/other" "$work/bin"

DDPRUN=$work/bin/ddprun
cd "$work/places/here"
on 1 true

# Output, environment, directory, ranks, slots; a quote and a newline in a value.
export MINE="it's
mine" NCCL_DEBUG=WARN
printf 'node2 slots=2\nnode1:1  # this one\nnode3\n' >"$work/hostfile"
# shellcheck disable=SC2016
on 1 run --hostfile "$work/hostfile" "${ssh[@]}" --export MINE sh -c \
  'echo "$RANK of $WORLD_SIZE on $(hostname) in $PWD: $NCCL_DEBUG, ${#MINE}"; echo "$RANK" >&2'
expect_exit 0
for line in 'node2 0' 'node2 1' 'node1 2' 'node3 3'; do
  expect_stdout "^\[${line#* }\] ${line#* } of 4 on ${line% *} in $work/places/here: WARN, 9$"
  expect_stderr "^\[${line#* }\] ${line#* }$"
done
[ "$(wc -l <"$out")" = 4 ] || fail "stdout has other lines"
expect_no_process_left

# A bash that believes itself started by sshd reads ~/.bashrc: the login shell does, no worker.
# shellcheck disable=SC2016
echo 'echo $$ >>~/read_by' >"$work/home/.bashrc"
touch "$work/home/read_by"
# shellcheck disable=SC2016
on 1 run --hosts node1,node2,node3 "${ssh[@]}" bash -c 'echo $$'
expect_exit 0
! sed 's/.* //' "$out" | grep -xFf - "$work/home/read_by" || fail "workers have read ~/.bashrc"
rm "$work/home/.bashrc"

# One report, one exit code.
# shellcheck disable=SC2016
on 1 run --hosts node1,node2,node3 "${ssh[@]}" sh -c '[ $RANK != 2 ] || exit 7; exec sleep 1000'
expect_exit 7
[ "$(grep -c 'rank 2 failed first' "$err")" = 1 ] || fail "not one report"
expect_no_process_left

# A session may begin when the command that asked for it has ended.
no_session() {
  local daemon
  for daemon in "${daemons[@]}"; do
    ! pgrep -P "$daemon" >/dev/null || return 1
  done
}
expect_nothing_left() {
  wait_until no_session
  expect_no_process_left soon
}

# Each of these is one line, which names the host, and the others are stopped.
refuses() {  # refuses HOST LINE
  on 1 run --hosts "node1,node2,$1" "${ssh[@]}" sleep 1000
  expect_exit 125
  expect_stderr "^ddprun: host $1: $2; stopping the other hosts$"
  expect_nothing_left
}
refuses node4 'no ddprun there \(.*No such file.*\): install it at the same path on all hosts'
refuses node5 "ddprun there has another version \(.*--remote_agent.*\): install .* on all hosts"
refuses node9 'cannot be reached: ssh ended with exit code 255 \(.*node9.*\); try it by hand: ssh -F .* node9 true'
umount_places() {
  nsenter --mount --target "${daemons[0]}" umount "$work/places"
}
nsenter --mount --target "${daemons[0]}" mount --bind "$work/empty" "$work/places"
on 1 run --hosts node1,node2,node3 "${ssh[@]}" sleep 1000
expect_exit 125
expect_stderr "^ddprun: host node2: cannot enter the directory $work/places/here: No such file .*: ddprun was started there, and every host needs it; stopping"
expect_nothing_left
umount_places

# Whatever is killed, nothing is left.
runs() {  # runs OPTIONS...: a job that runs on all of its hosts
  # shellcheck disable=SC2016
  on 1 start "${ssh[@]}" "$@" bash -c 'echo "runs $RANK"
    until [ -e "$0/finish" ]; do read -rt 0.05 <>"$0/fifo"; done; true' "$work"
}
have_started() {
  [ "$(grep -c 'runs' "$out")" -ge "$1" ]
}
started() {
  wait_until have_started "$1"
}
ssh_to() {
  pgrep -f -P "$(agent_of)" "ssh .* $1 exec"
}
agent_at() {  # the guardian that sshd started at HOST
  local pid
  for pid in $(survivors); do
    grep -qz "^SSH_CONNECTION=.* 10\.9\.0\.$1 22" "/proc/$pid/environ" || continue
    grep -qz -- '--remote_agent' "/proc/$pid/cmdline" && echo "$pid" && return
  done
}
child_at() {  # what that one guards
  pgrep -P "$(agent_at "$1")"
}
session_at() {  # of sshd
  pgrep -P "${daemons[$1 - 2]}"
}
for victim in ddprun 'agent_of' 'ssh_to node2' 'session_at 2' 'agent_at 2' 'child_at 2'; do
  runs --hosts node1,node2,node3
  started 3
  if [ "$victim" = ddprun ]; then pid=$ddprun; else pid=$($victim); fi
  kill -KILL "$pid"
  finish
  [ "$code" != 0 ] || fail "exit code 0 after the end of $victim"
  expect_nothing_left
done

# Ctrl-C, as a shell passes it on, stops all hosts, and so does the end of the terminal.
for signal in INT:130 HUP:129; do
  runs --hosts node1,node2,node3
  started 3
  kill "-${signal%:*}" "$ddprun"
  finish
  expect_exit "${signal#*:}"
  expect_nothing_left
done

if command -v python3 >/dev/null; then
  # shellcheck disable=SC2086
  env "$mark" python3 - ${command_prefix[1]} "$DDPRUN" --hosts node1,node2,node3 "${ssh[@]}" sh -c \
    'echo runs; exec sleep 1000' >"$work/terminal" 2>&1 <<'END' || fail "on a terminal: $(cat "$work/terminal")"
import os, pty, sys
process, terminal = pty.fork()
if process == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
screen = b""
while screen.count(b"runs") < 3:
    screen += os.read(terminal, 4096)
os.close(terminal)
os.waitpid(process, 0)
END
  expect_nothing_left
fi

# A host that hangs meanwhile is disconnected, and named alone.
runs --shutdown_timeout 1 --hosts node1,node2
started 2
guardian=$(agent_at 2)
agent=$(pgrep -P "$guardian")
kill -STOP "$agent" "$guardian"
kill -TERM "$ddprun"
finish
expect_exit 143
expect_stderr '^ddprun: host node2: ddprun there did not end: disconnected$'
expect_no_stderr 'host node1: ddprun there'
kill -KILL "$agent" "$guardian"
expect_nothing_left

# The secret of this side reaches each host, where no process shows it; nobody else is let in.
"$DDPRUN" secret "$work/empty/secret" || fail "no secret"
secret=$(cat "$work/empty/secret")
rm "$work/empty/secret"
DDPRUN_SECRET=$secret runs --rdzv_endpoint node1:29500 --hosts node1,node2,node3
started 3
for pid in $(survivors); do
  ! grep -qs "$secret" "/proc/$pid/environ" "/proc/$pid/cmdline" || fail "process $pid shows the secret"
done
on 3 run --nnodes 3 --rdzv_endpoint node1:29500 --rdzv_conf is_host=false true
expect_exit 2
expect_stderr 'it admits only nodes with its secret'
on 1
touch "$work/finish"
finish
expect_exit 0
rm "$work/finish"
expect_no_process_left

# All five, when each has the same ddprun.
for daemon in "${daemons[@]:2}"; do nsenter --mount --target "$daemon" umount "$work/bin"; done
on 1 run --hosts node1,node2,node3,node4,node5 "${ssh[@]}" "$DDPRUN_BIN/allreduce_hello"
expect_exit 0
for rank in 0 1 2 3 4; do expect_stdout "rank $rank of 5: the sum is 15\$"; done
expect_no_process_left

# A lost host is a lost node: the others go on without it, and end well.
runs --nnodes 1:2 "${quick[@]}" --last_call_timeout 1 --hosts node1,node2
started 2
kill -KILL "$(ssh_to node2)"
started 3
expect_stderr '^ddprun: host node2 is lost: its ssh ended \(killed by SIGKILL\)$'
touch "$work/finish"
finish
expect_exit 0
expect_no_process_left soon  # what is on the lost host nobody waits for
