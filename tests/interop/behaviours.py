# SPDX-License-Identifier: Apache-2.0
"""What the cases of launcher_behaviours.py share: how they are registered, run a launcher and look at what it did."""
import contextlib
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

launcher = sys.argv[1:]
is_ddprun = os.path.basename(launcher[0]) == "ddprun"
here = os.path.dirname(os.path.abspath(__file__))
worker = os.path.join(here, "launcher_worker.py")
limit = int(os.environ.get("DDPRUN_TEST_DEADLINE", 200))
cases = []
_folder = ""  # of the case that runs
IGNORED = ("--monitor-interval=1", "--start-method=spawn")  # accepted everywhere


def case(*names, only=None):
    """only: "ddprun" or "torchrun", where the other one cannot do it here; docs/torchrun.md says why."""

    def add(function):
        wanted = re.search(os.environ.get("CASES", ""), " ".join(names))
        if wanted and only in (None, "ddprun" if is_ddprun else "torchrun"):
            cases.append((names, function))
        return function

    return add


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def start(*words, environment=None, command=None):
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
    settings.update(environment or {})
    if "--no-python" in words or settings.get("PET_NO_PYTHON") == "1":
        settings.pop("DDPRUN_PRELOAD", None)
    return subprocess.Popen([*(command or launcher), *words], env=settings, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=_folder)


def finish(process, succeeds=True):
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{process.args} did not end within {limit} s") from None
    check((process.returncode == 0) == succeeds, f"{process.args}: exit code {process.returncode}\n{out}\n{err}")
    return out, err


def launch(*words, environment=None, succeeds=True, command=None):
    return finish(start(*words, environment=environment, command=command), succeeds)


def refused(*words, environment=None):
    _, err = launch(*words, environment=environment, succeeds=False)
    check(not os.listdir(results()), f"a worker ran: {words}")
    return err


def in_folder(name=""):
    """A path in the folder of the case that runs."""
    return os.path.join(_folder, name)


def results():
    path = in_folder("results")
    os.makedirs(path, exist_ok=True)
    return path


def found():
    """{rank: what it wrote}"""
    texts = {}
    for name in os.listdir(results()):
        if name.isdigit():
            with open(os.path.join(results(), name), encoding="utf8") as file:
                texts[int(name)] = file.read()
    return texts


def expect_ranks(count):
    check(set(found()) == set(range(count)), f"ranks {sorted(found())}, not 0 to {count - 1}")


def expect_all(text, count=1):
    check(found() == dict.fromkeys(range(count), text), f"{found()}, not {text!r} of each")


def wait_for(condition, text):
    end = time.monotonic() + limit
    while not condition():
        check(time.monotonic() < end, f"timed out waiting for {text}")
        time.sleep(0.02)


def free_port():  # below those that the kernel gives to connections
    while True:
        port = random.randrange(20000, 28000)
        with contextlib.closing(socket.socket()) as tried, contextlib.suppress(OSError):
            tried.bind(("", port))
            return port


def c10d(nodes="1:2", conf="timeout=60"):
    return (f"--nnodes={nodes}", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}",
            f"--rdzv-conf={conf}", f"--rdzv-id={random.getrandbits(64)}")


QUOTED = "'join_timeout=60,last_call_timeout=1,timeout=60'"


def touches(*words, program=worker, **more):
    return launch(*words, program, "touch", results(), **more)


def variables(*names, options=(), **more):
    launch(*options, worker, "write_variables", results(), *names, **more)


def shell_program():
    path = in_folder("script.sh")
    with open(path, "w", encoding="utf8") as file:
        file.write('#!/bin/sh\necho "creating $1/$RANK"; touch "$1/$RANK"\n')
    os.chmod(path, 0o755)
    return path


def nodes(commands):
    """Each is the command line of one node: runs them together, and returns what they printed."""
    processes = [start(*words) for words in commands]
    return [finish(process) for process in processes]


def run_cases():
    global _folder
    failed = []
    for names, function in cases:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as _folder:
            try:
                function()
                outcome = "passed"
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed.append(names[0])
                outcome = f"FAILED: {error}"
        print(f"{time.monotonic() - begin:6.2f} s  {', '.join(names)}: {outcome}", flush=True)
    print(f"{sum(len(names) for names, _ in cases)} behaviours in {len(cases)} cases, {len(failed)} failed")
    sys.exit(1 if failed else 0)
