#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program with --preload sees the same as without it.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python=${PYTHON_EXEC:-$(command -v python3)} || skip "there is no python3"
unset PYTHONUNBUFFERED
PYTHON_EXEC=$("$python" -c 'import sys; print(sys.executable)')  # not a script that executes it
export PYTHON_EXEC
DDPRUN=$(realpath "$DDPRUN")
cd "$work"
cat >heavy.py <<'END'
import atexit, os, random, signal
template = os.getpid()
os.environ["HEAVY"] = "was here"
signal.signal(signal.SIGUSR1, lambda *_: None)
atexit.register(lambda: os.environ.get("PROGRAM") == str(os.getpid()) and print("at exit: heavy"))
END
mkdir folder package
cat >show.py <<'END'
import atexit, faulthandler, gc, heavy, multiprocessing, os, pickle, resource, signal, sys, threading

class Thing:
    pass

def double(x):
    return 2 * x, __name__

def show(*what):
    print(*what, flush=True)

def stream(each):
    return (each.name, each.mode, each.encoding, each.errors, each.write_through, each.line_buffering, each.isatty(),
            each.fileno(), type(each.buffer).__name__, each.newlines)

if __name__ == "__main__":
    own = sys.modules["__main__"]
    show(sorted(vars(own)), own.__file__, own.__spec__, own.__package__, own.__doc__, type(own.__loader__).__name__)
    show(sys.argv, getattr(sys, "orig_argv", 0), sys.path, sys.flags, sys.executable, sys.prefix)
    show([stream(each) for each in (sys.stdin, sys.stdout, sys.stderr)], sys.stdin is sys.__stdin__)
    show(open("/proc/self/cmdline").read().split("\0"), open("/proc/self/comm").read())
    shown = open("/proc/self/environ").read().rstrip("\0").split("\0")
    random_ones = "MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "NOTIFY_SOCKET", "DDPRUN_MASTER_PORT"
    show(sorted(each for each in shown if each.split("=")[0] not in random_ones))
    show(sorted(each for each in os.environ.items() if each[0] not in random_ones))
    os.environ["PROGRAM"] = str(os.getpid())
    show({each: str(signal.getsignal(each)).split(" at ")[0] for each in signal.valid_signals()})
    show([line for line in open("/proc/self/status") if line.startswith(("SigB", "SigI", "SigC", "ShdPnd", "Threads"))])
    show(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), os.getcwd(), os.umask(0o22))
    show([resource.getrlimit(each) for each in range(16)], os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0))
    show(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
    show(gc.isenabled(), gc.get_threshold(), faulthandler.is_enabled(), threading.active_count())
    show(threading.main_thread().native_id == os.getpid(), threading.get_ident() == threading.main_thread().ident)
    show(pickle.loads(pickle.dumps(Thing)) is Thing, Thing.__module__)
    for method in ("fork",) if "fork_only" in sys.argv else ("fork", "spawn", "forkserver"):  # others lack __main__ of packages
        with multiprocessing.get_context(method).Pool(2) as pool:
            show(method, pool.map(double, [1, 2]))
    atexit.register(lambda: show("at exit: the program"))
    show(sys.stdin.read())
    print("no newline", end="")
    if sys.argv[-1] == "fail":
        raise SystemExit(5)
END
cp show.py package/__main__.py
cp show.py folder/__main__.py
touch package/__init__.py
(cd folder && python3 -m zipfile -c ../app.zip __main__.py)

no_addresses() { sed 's/ at 0x[0-9a-f]*//g; s/recorder-[0-9a-f]*/recorder/g' "$out"; }

same() {  # same FLAGS... PROGRAM...
  echo 'an input' >input
  run "$@" <input
  no_addresses >plain
  run --preload heavy "$@" <input
  [ "$(grep -c '^fork ' "$out")" -ge 1 ] || fail "it did not run to its end"
  no_addresses >preloaded
  diff plain preloaded >difference || fail "$* differs: $(cat difference)"
  expect_no_process_left
}
same show.py --lr 0.1 ''
same ./show.py
same -m show x
same -m package fork_only
same --run_path folder fork_only
same --run_path show.py fork_only
same --run_path app.zip fork_only
same --hang_timeout 60 show.py
same --numa_binding exclusive --nproc_per_node 1 show.py
same show.py fail
OMP_NUM_THREADS=2 same show.py
PYTHONSAFEPATH=1 PYTHONPATH=$work same show.py

# Numbers are not the same on all ranks.
cat >random_numbers.py <<'END'
import os, random, heavy
print(random.random(), os.urandom(4))
END
run --nproc_per_node 4 --no_prefix --preload heavy random_numbers.py
[ "$(grep -v heavy "$out" | sort -u | wc -l)" = 4 ] || fail "the same numbers"

# Python's own finds nothing that was left open, and each of the ranks has its variables and its CPUs.
cat >ranks.py <<'END'
import os, heavy
print(os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["OMP_NUM_THREADS"], "OPENBLAS_NUM_THREADS" in os.environ)
END
run --nproc_per_node 2 --preload heavy ranks.py
expect_stdout '^\[0\] 0 0 1 False$'
expect_stdout '^\[1\] 1 1 1 False$'
expect_no_process_left
