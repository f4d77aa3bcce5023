#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun watch on a terminal draws again what has changed, ranks that are not well in a colour, and at once when the
# terminal has another size; elsewhere it writes plain text. It ends with the job, or when q is typed; then, and while
# Ctrl-Z stops it, the terminal echoes again.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
unset NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR

export XDG_RUNTIME_DIR=$work/run
mkdir -m 700 "$XDG_RUNTIME_DIR"
start --nproc_per_node 8 bash -c 'echo ready; exec sleep 600'
for rank in 0 1 2 3 4 5 6 7; do wait_for_stdout "^\[$rank\] ready"; done
answers() { "$DDPRUN" status "$ddprun" >"$work/status" 2>&1 && grep -q '^7 .* running' "$work/status"; }
wait_until answers
! grep -q $'\033' "$work/status" || fail "a file has colours"

on_terminal <<END
import os
type("export TERM=xterm\n"), expect(prompt)
resize(24, 100)
type("$DDPRUN watch $ddprun\n")
for again in 1, 2:
    expect(r"\x1b\[H\x1b\[Jjob bash: running for .*\n"), expect(r"^RANK "), expect(r"^7 .* running")
os.kill($(worker_of 5), 19)
expect(r"^RANK .*\n\x1b\[31m5 .* stopped .*\x1b\[0m\$"), expect(r"^0 .* running")
resize(6, 60)
expect(r"^\x1b\[31m5 .*\n0 .*\n6 more: 6 running; --all shows them\$")
os.kill($(worker_of 5), 18)
expect(r"^RANK .*\n0 .*\n1 .*\n6 more: 6 running")
type("\x03"), expect(prompt)
type("stty -a\n"), expect(r" icanon .* echo "), expect(prompt)
type("$DDPRUN watch $ddprun\n"), expect(r"^0 .* running")
type("\x1a"), expect("Stopped"), expect(prompt)
type("stty -a\n"), expect(r" icanon .* echo "), expect(prompt)
type("fg\n"), expect(r"^0 .* running")
type("xq"), expect(prompt)
check("xq" not in screen, "keys are echoed")
type("echo code \$?\n"), expect("^code 0\$"), expect(prompt)
type("stty -a\n"), expect(r" icanon .* echo "), expect(prompt)
type("NO_COLOR=1 $DDPRUN watch $ddprun\n"), expect(r"^0 .* running")
os.kill($(worker_of 5), 19)
expect(r"^5 .* stopped")
type("\x03"), expect(prompt)
END

"$DDPRUN" watch "$ddprun" >"$work/watched" 2>&1 &
watcher=$!
wait_until grep -q '^5 .* stopped' "$work/watched"
kill "$ddprun"
finish
expect_exit 143
wait $watcher || fail "ddprun watch does not end well with its job: $(cat "$work/watched")"
! grep -q $'\033' "$work/watched" || fail "a file has control sequences"
expect_no_process_left
