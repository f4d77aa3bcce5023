#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another user of the host gets nothing from a job on one node: not from its store, from the socket where it is asked,
# even if its folder is open, from error and log files, nor from /proc. It cannot send heartbeats or descriptors, and
# gains nothing by taking the name of the folder for sockets. And nowhere in the memory of ddprun is the secret, so no
# core dump has it. Keys computed from it are there, but ddprun leaves no core dump, and its user's own programs cannot
# read its memory.
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

def beat():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        return peer.sendto(b"WATCHDOG=1\nSTATUS=step 666", heartbeats)

attempt("heartbeats", beat)
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
grep -qx 'heartbeats nothing: Permission denied' "$work/other_user" || fail "heartbeats: $(cat "$work/other_user")"
status=$("$DDPRUN" status --json "${pids[alone]}") && [[ $status == *'"job":"attacked"'* ]] || fail "no status: $status"
[[ $status != *"step 666"* ]] || fail "another user's heartbeat counts"
chmod 755 "${socket%/*}"
chmod 777 "$socket"
as_other_user
grep -qx 'socket nothing' "$work/other_user" || fail "not heard and not refused: $(cat "$work/other_user")"
! grep ' in$' "$work/other_user" || fail "another user gets in"
[ "$(grep -c 'Permission denied$' "$work/other_user")" = 7 ] || fail "$(cat "$work/other_user")"
setpriv --reuid 54321 --regid 54321 --clear-groups sh -c 'cat "$0"' "$environment" &>"$work/environ" &&
  fail "another user reads the environment"

# The last close of a connection may take as long as its owner wishes. If a descriptor of it comes with a message, the
# receiver is its last owner.
cat >"$work/descriptors.py" <<'PROGRAM'
import array, os, socket, struct, sys, time
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)
kept = []

def slow_to_close():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        slow = socket.socket()
        slow.connect(listener.getsockname())
        kept.append(listener.accept()[0])
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1000))
    slow.setblocking(False)
    try:
        while True:
            slow.send(bytes(65536))
    except BlockingIOError:
        kept.append(slow)
        return slow.fileno()

for name in sys.argv[1:]:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as peer:
            try:
                peer.connect("\0" + name[1:] if name[0] == "@" else name)
                peer.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [slow_to_close()]))])
                kept.pop().close()  # the message has it; else this would take as long here
                print("in:", name, kind.name, flush=True)
            except OSError as refused:
                print("nothing:", name, refused.strerror, flush=True)
print("done", flush=True)
time.sleep(1000)
PROGRAM
abstract_sockets() {  # abstract_sockets PID...: those that these processes have open
  for pid; do readlink "/proc/$pid/fd/"* || true; done | sed -n 's/^socket:\[\([0-9]*\)\]$/\1/p' >"$work/inodes"
  awk 'NR == FNR { own[$1]; next } $7 in own && $8 ~ /^@/ { print $8 }' "$work/inodes" /proc/net/unix
}
chmod 700 "${socket%/*}"
on alone true
mapfile -t abstract < <(abstract_sockets "$ddprun" "$(agent_of)" "$(worker_of)")
env "$mark" python3 "$work/descriptors.py" "$heartbeats" "$socket" "${abstract[@]}" >"$work/descriptors" 2>&1 &
attacker=$!
wait_until grep -qsx 'done' "$work/descriptors"
"$DDPRUN" status "$ddprun" >"$work/status" 2>&1 || fail "a stranger's descriptor holds up the agent: $(cat "$work/status")"
kill "$attacker"
wait "$attacker" 2>/dev/null || true
! grep '^in:' "$work/descriptors" || fail "another user's descriptor reaches a socket"

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

# The folder for sockets has a name that everybody can guess.
user=$((60000 + $$ % 5000))
taken=("/tmp/ddprun-$user" "/dev/shm/ddprun-$user")
remove_taken() { rm -rf "${taken[0]}"* "${taken[1]}"*; }
at_exit+=(remove_taken)
remove_taken
mkdir "${taken[@]}"
own=(env -u XDG_RUNTIME_DIR setpriv --reuid "$user" --regid "$user" --clear-groups)
command_prefix[taken]=${own[*]}
on taken chmod 666 "$work/.taken.events"
on taken start python3 -c '
import os, socket, time
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"STATUS=step 7", os.environ["NOTIFY_SOCKET"])
time.sleep(600)'
shows_progress() { "${own[@]}" "$DDPRUN" status 2>"$work/status" | grep -qE '^0 .* step 7$'; }
wait_until shows_progress
"${own[@]}" "$DDPRUN" stop
finish
expect_exit 143
[ -z "$(find "${taken[@]}" -mindepth 1)" ] || fail "the folders of another user were used"

for each in master member alone; do
  on "$each" kill -INT "${pids[$each]}"
  on "$each" finish
  on "$each" expect_exit 130
done
expect_no_process_left
