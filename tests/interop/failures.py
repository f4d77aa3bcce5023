# SPDX-License-Identifier: Apache-2.0
"""A worker of two, of which rank 1 fails as asked: failures.py HOW [FILE].

Rank 0 writes FILE once it ignores SIGTERM.
"""
import os
import signal
import sys
import time
from pathlib import Path

rank = os.environ["RANK"]


def wait_for(file):
    while not file.exists():
        time.sleep(0.05)


def deep_thought(answer):
    raise ValueError(f"not the answer: {answer}")


def record(answer):
    from torch.distributed.elastic.multiprocessing.errors import record as recorded

    recorded(deep_thought)(answer)


def ignore_sigterm(file):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    file.touch()
    signal.pause()


how = sys.argv[1]
ready = Path(sys.argv[2]) if len(sys.argv) > 2 else None
if rank == "0":
    if ready:
        ignore_sigterm(ready)
    signal.pause()
if ready:
    wait_for(ready)
match how:
    case "traceback":
        deep_thought(41)
    case "record":
        record(41)
    case "exit":
        sys.exit(3)
    case "kill":
        os.kill(os.getpid(), 9)
    case "import":
        import no_such_module
    case "wait":
        print("waiting")
        signal.pause()
