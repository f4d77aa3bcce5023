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
import atexit, ctypes, faulthandler, gc, heavy, multiprocessing, os, pickle, resource, signal, site, sys, threading

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
    show(sys.argv, getattr(sys, "orig_argv", 0), sys.path, sys.flags, sys.executable, sys.prefix, site.ENABLE_USER_SITE)
    show([stream(each) for each in (sys.stdin, sys.stdout, sys.stderr)], sys.stdin is sys.__stdin__)
    show(open("/proc/self/cmdline").read().split("\0"), open("/proc/self/comm").read())
    shown = open("/proc/self/environ").read().rstrip("\0").split("\0")
    random_ones = "MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "NOTIFY_SOCKET", "DDPRUN_MASTER_PORT"
    show(sorted(each for each in shown if each.split("=")[0] not in random_ones + ("FROM_SCRIPT",)))
    show(sorted(each for each in os.environ.items() if each[0] not in random_ones))
    os.environ["PROGRAM"] = str(os.getpid())
    show({each: str(signal.getsignal(each)).split(" at ")[0] for each in signal.valid_signals()})
    show([line for line in open("/proc/self/status") if line.startswith(("SigB", "SigI", "SigC", "ShdPnd", "Threads"))])
    show(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), os.getcwd(), os.umask(0o22))
    show([resource.getrlimit(each) for each in range(16)], os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0))
    show("with a library:", "libfake_nvml" in open("/proc/self/maps").read())
    show(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), open("/proc/self/coredump_filter").read())  # PR_GET_DUMPABLE
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
same --standalone --pass_local_rank dash show.py fork_only
same --numa_binding exclusive --nproc_per_node 2 --no_prefix --local_ranks_filter 1 show.py fork_only
(ulimit -S -n 300 && ulimit -c 0 && same show.py fork_only) || exit 1
site=$("$PYTHON_EXEC" -c 'import sys; print("lib/python%d.%d/site-packages" % sys.version_info[:2])')
mkdir -p "user/$site"
echo 'import os; os.environ["CUSTOM"] = "of the user"' >"user/$site/usercustomize.py"
PYTHONUSERBASE=$work/user same show.py fork_only
# The interpreter may be a script that sets variables and options of Python.
printf '#!/bin/sh\nFROM_SCRIPT=1 exec "%s" -X dev "$@"\n' "$PYTHON_EXEC" >wrapper
chmod +x wrapper
PYTHON_EXEC=$work/wrapper same show.py fork_only
PYTHON_EXEC=$work/wrapper same -m show fork_only
if "$PYTHON_EXEC" -m venv --without-pip venv 2>/dev/null; then
  PYTHON_EXEC=$work/venv/bin/python same show.py fork_only
  (unset PYTHON_EXEC && PATH=$work/venv/bin:$PATH same show.py) || exit 1
  grep -q " $work/venv " plain || fail "not the Python of the venv"
fi
if [ -e "${FAKE_NVML_LIBRARY:-}" ] && [ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ]; then
  LD_PRELOAD=$FAKE_NVML_LIBRARY same show.py fork_only
  grep -q '^with a library: True$' plain || fail "LD_PRELOAD has no effect"
fi

# A signal ends it in the same way, with a core or without.
cat >dies.py <<'END'
import heavy, os, signal, sys
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
END
mkdir cores
for signal in SIGSEGV SIGABRT SIGTERM SIGKILL; do
  for flags in '' '--preload heavy'; do
    # shellcheck disable=SC2086
    (ulimit -S -c "$(ulimit -H -c)" && cd cores && run $flags ../dies.py $signal) || exit 1
    grep -oE "failed first: killed by $signal( \(core dumped\))?" "$err" || fail "not killed by $signal"
  done | sort -u >ends
  [ "$(wc -l <ends)" = 1 ] || fail "it ended in two ways: $(cat ends)"
done

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
