#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With --preload the modules are imported once on a node, and workers are forked from there, round after round.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v python3 >/dev/null || skip "there is no python3"
unset PYTHON_EXEC
DDPRUN=$(realpath "$DDPRUN")
cd "$work"
cat >heavy.py <<'END'
import os
with open(os.environ["IMPORTS"], "a") as file:
    print(os.getpid(), file=file)
template = os.getpid()
END
cat >fails_once.py <<'END'
import os, sys, heavy
print("rank", os.environ["RANK"], "of template", heavy.template, "parent", os.getppid(), sys.argv[1:], flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
    sys.exit(3)
END
cat >waits.py <<'END'
import os, time, heavy
print("template", heavy.template, flush=True)
print("pid", os.getpid(), flush=True)
time.sleep(600)
END
export IMPORTS=$work/imports

imports() { wc -l <"$IMPORTS"; }

# A restart forks from the same process.
run --nproc_per_node 2 --max_restarts 1 --preload heavy fails_once.py x --preload y
expect_exit 0
expect_stderr 'restart 1 of 1'
[ "$(imports)" = 1 ] || fail "imported $(imports) times"
[ "$(grep -c "of template $(cat "$IMPORTS") parent" "$out")" -ge 3 ] || fail "not all were forked from one process"
expect_stdout "\['x', '--preload', 'y'\]\$"
expect_no_process_left

# Workers are the agent's children. A template that is killed does not disturb them; the next round makes another one.
: >"$IMPORTS"
start --nproc_per_node 2 --max_restarts 1 --preload heavy waits.py
wait_until grep -q '\[1\] pid' "$out"
[ "$(ps -o ppid= -p "$(worker_of 1)" | tr -d ' ')" = "$(agent_of)" ] || fail "not a child of the agent"
template=$(cat "$IMPORTS")
[ "$(tr '\0' ' ' <"/proc/$template/cmdline")" = "ddp-preload of $(agent_of) " ] || fail "another title"
kill -KILL "$template"
gone() { ! kill -0 "$1" 2>/dev/null; }
wait_until gone "$template"
only_later_events
kill -KILL "$(worker_of 0)"
wait_for_event worker_started '"round":1,"rank":1'
[ "$(imports)" = 2 ] || fail "imported $(imports) times"
kill "$ddprun"
finish
expect_exit 143
expect_no_process_left

# Nothing is left of any of them, whichever is killed.
for victim in agent guardian template; do
  : >"$IMPORTS"
  start --nproc_per_node 2 --preload heavy waits.py
  wait_until grep -q '\[0\] pid' "$out"
  wait_until grep -q '\[1\] pid' "$out"
  case $victim in
    agent) kill -KILL "$(agent_of)" ;;
    guardian) kill -KILL "$ddprun" ;;
    template)
      kill -KILL "$(cat "$IMPORTS")"
      kill "$ddprun"
      ;;
  esac
  finish
  expect_no_process_left soon
done

# Workers are found by their script's name, and a signal reaches the handler that a module has set.
cat >handles.py <<'END'
import signal, sys
def handle(number, _):
    print("handled", number, flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, handle)
END
echo 'import handles, time; print("ready", flush=True); time.sleep(600)' >"named_$$.py"
start --nproc_per_node 2 --preload handles "named_$$.py"
for rank in 0 1; do wait_until grep -q "\[$rank\] ready" "$out"; done
[ "$(pgrep -f "^[^ ]*python[^ ]* -u named_$$.py\$" | sort)" = "$(for rank in 0 1; do worker_of $rank; done | sort)" ] ||
  fail "not the workers: $(pgrep -af "named_$$.py")"
pkill -f "^[^ ]*python[^ ]* -u named_$$.py\$"
finish
expect_exit 7
for rank in 0 1; do expect_stdout "\[$rank\] handled 15"; done
expect_no_process_left

# Output has its streams and prefixes, rank 0 the input, and exit codes are Python's.
cat >streams.py <<'END'
import os, sys, heavy
print("out", sys.stdin.readline().strip(), end="\n")
print("err", file=sys.stderr)
if sys.argv[1] == "exit":
    sys.exit("the end")
if sys.argv[1] == "raise":
    raise ValueError("no such thing")
os.kill(os.getpid(), int(sys.argv[1]))
END
run --preload heavy streams.py exit <<<'a line'
expect_exit 1
expect_stdout '^out a line$'
expect_stderr '^err$'
expect_stderr '^the end$'
expect_no_process_left

run --preload heavy streams.py raise
expect_exit 1
[ "$(grep -c 'ValueError: no such thing' "$err")" = 2 ] || fail "not once, and in the report"
expect_stderr '^  File ".*/streams.py", line 7, in <module>'
expect_no_stderr '<string>|preload.py'
expect_no_process_left

run --preload heavy streams.py 15
expect_exit 143
expect_no_process_left

run --preload heavy streams.py 2
expect_exit 130
expect_stderr '^KeyboardInterrupt'
expect_no_process_left

# ddprun.toml and the environment set it, too.
echo 'preload = "heavy"' >ddprun.toml
: >"$IMPORTS"
run --nproc_per_node 3 streams.py exit
[ "$(imports)" = 1 ] || fail "imported $(imports) times"
rm ddprun.toml
: >"$IMPORTS"
DDPRUN_PRELOAD=json,heavy run --nproc_per_node 3 streams.py exit
[ "$(imports)" = 1 ] || fail "imported $(imports) times"
expect_no_process_left

# A module beside the program, or in this folder, may have a name of Python's own ones.
mkdir names
echo 'raise ImportError("of the user")' | tee names/socket.py names/runpy.py >names/struct.py
echo 'import json; print("hello")' >names/hello.py
cd names
for program in ./hello.py '-m hello'; do
  # shellcheck disable=SC2086
  run --preload json $program
  expect_exit 0
  expect_stdout '^hello$'
  expect_no_stderr preload
done
cd ..
expect_no_process_left

# Only Python has modules.
run --preload heavy sh -c true
expect_exit 2
[ "$(wc -l <"$err")" = 1 ] || fail "not one line"
expect_stderr "^ddprun: --preload is for Python programs .*, but 'sh' is executed directly"
run --preload heavy, waits.py
expect_exit 2
expect_stderr '^ddprun: --preload .*names of Python modules'
expect_no_process_left

# Each of two nodes imports once.
: >"$IMPORTS"
endpoint=(--nnodes 2 --nproc_per_node 2 --rdzv_endpoint "$here:29400" "${quick[@]}")
on a start "${endpoint[@]}" --preload heavy --max_restarts 1 fails_once.py
on b start "${endpoint[@]}" --preload heavy --max_restarts 1 fails_once.py
on a finish
on a expect_exit 0
on b finish
on b expect_exit 0
[ "$(imports)" = 2 ] || fail "imported $(imports) times"
expect_no_process_left

# --hosts passes it on, and a job of several sizes forks from the same process when a node comes.
: >"$IMPORTS"
run --hosts localhost:2 --preload heavy --max_restarts 1 fails_once.py
expect_exit 0
[ "$(imports)" = 1 ] || fail "imported $(imports) times"
: >"$IMPORTS"
endpoint=(--nnodes 1:2 --rdzv_endpoint "$here:29400" "${quick[@]}" --last_call_timeout 1s --preload heavy waits.py)
on a start "${endpoint[@]}"
wait_for_stdout 'template [0-9]'
template=$(cat "$IMPORTS")
on b start --rdzv_conf is_host=false "${endpoint[@]}"
forked_again() { [ "$(grep -c "template $template\$" "$out")" = 2 ]; }
on a wait_until forked_again
on b wait_for_stdout 'template [0-9]'
for node in a b; do on $node kill "$ddprun"; done
for node in a b; do
  on $node finish
  expect_exit 143
done
expect_no_process_left
