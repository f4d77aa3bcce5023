#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another user of the host gets nothing from a job on one node: not from its store, from the socket where it is
# asked, even if its folder is open, from error and log files, nor from /proc, and its heartbeats do not count. And
# nowhere in the memory of ddprun is the secret, so no core dump has it. What has been computed from it is there, but
# ddprun leaves no core dump, and its user's own programs cannot read its memory.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip "there is no python3"
[ "$(id -u)" = 0 ] || skip "to be another user takes root"

chmod 711 "$work"  # another user may enter what is not protected by itself
export XDG_RUNTIME_DIR=$work/run TMPDIR=$work/tmp
mkdir -m 755 "$XDG_RUNTIME_DIR"
mkdir -m 1777 "$TMPDIR"
"$DDPRUN" secret "$work/secret" || fail "no secret"
secret=$(cat "$work/secret")

# shellcheck disable=SC2016
worker=(sh -c 'echo "store $MASTER_PORT errors $TORCHELASTIC_ERROR_FILE"; exec sleep 600')
DDPRUN_SECRET=$secret on master start --rdzv_id attacked --rdzv_endpoint "$here:29500" --nnodes 2 "${worker[@]}"
on member start --secret_file "$work/secret" --rdzv_id attacked --rdzv_endpoint "$here:29500" \
  --rdzv_conf is_host=false --nnodes 2 "${worker[@]}"
on alone start --rdzv_id attacked --log_dir "$work/logs" --tee 3 "${worker[@]}"
for each in master member alone; do on "$each" wait_for_stdout 'errors /'; done
store=$(sed -n 's/.*store \([0-9]*\) .*/\1/p' "$out")
socket=$XDG_RUNTIME_DIR/ddprun/attacked.$ddprun.sock
log=$(echo "$work"/logs/*/attempt_0/0/stdout.log)
environment=/proc/$(agent_of)/environ
heartbeats=$(tr '\0' '\n' <"/proc/$(worker_of)/environ" | sed -n 's/^NOTIFY_SOCKET=//p')
on master true
error_file=$(sed -n 's/.*errors //p' "$out")
for file in "$log" "$environment" "${error_file%/*}"; do [ -e "$file" ] || fail "there is no $file"; done
wait_until test -S "$socket"

cat >"$work/other_user.py" <<'PROGRAM'
import os, socket, sys
at, heartbeats, *files = sys.argv[1:]
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)

def answer():
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(40)
        peer.connect(at)
        try:
            peer.sendall(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
            return peer.recv(4096)
        except ConnectionError:
            return b""

def attempt(name, action):
    try:
        print(name, "in" if action() else "nothing")
    except OSError as refused:
        print(name, "nothing:", refused.strerror)

with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
    peer.sendto(b"WATCHDOG=1\nSTATUS=step 666", heartbeats.replace("@", "\0"))
attempt("socket", answer)
for file in files:
    attempt("reads " + file, lambda: open(file, "rb").read(1))
    attempt("writes " + file, lambda: open(file, "ab"))
    attempt("lists " + file, lambda: os.listdir(os.path.dirname(file)))
PROGRAM
as_other_user() {
  python3 "$work/other_user.py" "$socket" "$heartbeats" "$error_file" "$log" >"$work/other_user" 2>&1 ||
    fail "$(cat "$work/other_user")"
}
as_other_user
grep -q '^socket nothing: Permission denied' "$work/other_user" || fail "the socket's folder: $(cat "$work/other_user")"
status=$("$DDPRUN" status --json "${pids[alone]}") && [[ $status == *'"job":"attacked"'* ]] || fail "no status: $status"
[[ $status != *"step 666"* ]] || fail "another user's heartbeat counts"
chmod 755 "${socket%/*}"
chmod 777 "$socket"
as_other_user
grep -qx 'socket nothing' "$work/other_user" || fail "not heard and not refused: $(cat "$work/other_user")"
! grep ' in$' "$work/other_user" || fail "another user gets in"
[ "$(grep -c 'Permission denied$' "$work/other_user")" = 6 ] || fail "$(cat "$work/other_user")"
setpriv --reuid 54321 --regid 54321 --clear-groups sh -c 'cat "$0"' "$environment" &>"$work/environ" &&
  fail "another user reads the environment"

mkdir "$work/recordings"
on alone true
timeout "$deadline" python3 "$(dirname "${BASH_SOURCE[0]}")/attacker.py" port 127.0.0.1 "$store" attacked \
  "$work/recordings" 54321 >"$work/attacks" 2>"$work/attacks.err" &
attacker=$!
wait_until grep -qsx 'done' "$work/attacks"
kill "$attacker"
wait "$attacker" 2>/dev/null || true
! grep ' in$' "$work/attacks" || fail "another user uses the store"
python3 - "$store" <<'PROGRAM' || fail "the store refuses root, too"
import socket, sys
store = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 40)
store.sendall(bytes.fromhex("00cef7853c0d") + b"ping")
assert store.recv(4, socket.MSG_WAITALL) == b"ping"
PROGRAM
expect_stderr 'store: refused .*: it belongs to user 54321'

cat >"$work/search.py" <<'PROGRAM'
"""search.py TEXT HEXADECIMAL PID...: fails if the secret is in a process, or the text in none."""
import re, sys
text, secret = sys.argv[1].encode(), sys.argv[2]
parts = [secret[:24].encode(), bytes.fromhex(secret)[:12]]
found = False
for pid in sys.argv[3:]:
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            if line.split()[1][0] != "r":
                continue
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, OverflowError, ValueError):  # the kernel's own
                continue
            found = found or text in content
            assert not any(part in content for part in parts), f"process {pid} has it: {line}"
assert found, "the text is nowhere"
PROGRAM
pids_of_ddprun=()
for each in master member; do
  on "$each"
  pids_of_ddprun+=("$ddprun" "$(agent_of)" "$(worker_of)")
done
# A sanitizer keeps the environment that it has read its options from.
[ -n "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] ||
  python3 "$work/search.py" attacked "$secret" "${pids_of_ddprun[@]}" || fail "the secret is in memory"

# The job's own user, who is not root.
cat >"$work/own_user.py" <<'PROGRAM'
import os
agent = os.getppid()
guardian = int(open(f"/proc/{agent}/stat").read().rpartition(")")[2].split()[1])
for name, pid in (("agent", agent), ("guardian", guardian)):
    for file in ("environ", "mem", "fd/0"):
        try:
            open(f"/proc/{pid}/{file}", "rb").close()
            print(name, file, "in", flush=True)
        except OSError as refused:
            print(name, file, "nothing:", refused.strerror, flush=True)
PROGRAM
as_own_user() {  # as_own_user NAME VARIABLE...
  command_prefix[$1]="env ${*:2} XDG_RUNTIME_DIR=$TMPDIR setpriv --reuid 54321 --regid 54321 --clear-groups"
  on "$1" chmod 666 "$work/.$1.events"
  on "$1" run python3 "$work/own_user.py"
  on "$1" expect_exit 0
}
as_own_user open A=b
grep -qx 'agent environ in' "$out" || fail "it cannot read what is not protected: $(cat "$out")"
as_own_user secret "DDPRUN_SECRET=$secret"
[ "$(grep -c 'nothing: Permission denied' "$out")" = 6 ] || fail "a worker reads ddprun's memory: $(cat "$out")"

for each in master member alone; do
  on "$each" kill -INT "${pids[$each]}"
  on "$each" finish
  on "$each" expect_exit 130
done
expect_no_process_left
