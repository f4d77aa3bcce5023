#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Without --hang_timeout a hang is only reported, by every node, and one of them shows where all ranks are. That ranks
# go on is said, too. It takes a minute: the shortest time after which missing heartbeats are news.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip "there is no python3"
deadline=${DDPRUN_TEST_DEADLINE:-180}

cat >"$work/train.py" <<'END'
import os, signal, socket, time
address = os.environ["NOTIFY_SOCKET"]
beats = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
beats.connect("\0" + address[1:] if address[0] == "@" else address)
for step in range(10):
    beats.sendall(b"WATCHDOG=1\nSTATUS=step %d" % step)
    time.sleep(0.1)
go_on = os.path.join(os.environ["work"], "go_on")
signal.signal(signal.SIGALRM, lambda *_: None)
while not os.path.exists(go_on):
    signal.setitimer(signal.ITIMER_REAL, 600)
    signal.pause()
while True:
    beats.sendall(b"WATCHDOG=1\nSTATUS=again")
    time.sleep(0.1)
END
export work
for node in a b; do
  on "$node" start "${quick[@]}" --nnodes 2 --node_rank "$([ "$node" = a ] && echo 0 || echo 1)" \
    --rdzv_endpoint "$here:29500" python3 "$work/train.py"
done
for node in a b; do
  on "$node" wait_for_stderr 'no rank has made progress for .* \(round 0\)'
  on "$node" wait_for_stderr '^ +ranks 0, 1 \(.*\): .*asleep \(pause\)'
  on "$node" wait_for_event hang
done
on a wait_for_stderr '^ddprun: .*where ranks 0, 1 are, the innermost call last:'
touch "$work/go_on"
for node in a b; do
  on "$node" true
  kill -ALRM "$(worker_of)"
done
for node in a b; do on "$node" wait_for_stderr 'ranks make progress again'; done
on b expect_no_stderr 'innermost call last'
for node in a b; do kill -TERM "${pids[$node]}"; done
for node in a b; do
  on "$node" finish
  on "$node" expect_exit 143
done
expect_no_process_left
