# SPDX-License-Identifier: Apache-2.0
"""The process: start without a launcher, reports to the launcher."""
import ctypes
import functools
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
import traceback
from typing import Any, Callable, Dict, Optional, Sequence, Set, Tuple, TypeVar

from ddp import _native
from ddp._stores import TcpStore
from ddp._types import Error, ErrorKind

F = TypeVar("F", bound=Callable[..., Any])


def heartbeat(step: int) -> None:
    """Reports to the launcher that this rank makes progress. Call it once a step; it never waits.

    >>> import ddp
    >>> ddp.heartbeat(7)
    """
    _native.heartbeat(step)


def write_trace(path: str) -> None:
    """Writes the last calls of this process to a file, as JSON."""
    _native.write_trace(path)


def local_device() -> int:
    """The number of this process's GPU, among those that are visible to it."""
    return int(_native.local_device())


def _write_error_file(error: BaseException) -> None:
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or (os.path.exists(path) and not os.path.isfile(path)):
        return
    message = {
        "message": f"{type(error).__name__}: {error}",
        "extraInfo": {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))},
    }
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "w", encoding="utf8") as file:
        json.dump({"message": message}, file)
    os.replace(temporary, path)


def record(main: F) -> F:
    """Decorates the main function: if an exception leaves it, writes that to the file from which the launcher takes
    its report (TORCHELASTIC_ERROR_FILE), as PyTorch's @record does, and raises it again.

    >>> import ddp
    >>> @ddp.record
    ... def main() -> int:
    ...     return 3
    >>> main()
    3
    """

    @functools.wraps(main)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        try:
            return main(*args, **kwargs)
        except Exception as error:
            _write_error_file(error)
            raise

    return recorded  # type: ignore[return-value]


def _run_spawned(fn: Callable[..., None], rank: int, args: Sequence[Any], variables: Dict[str, str], parent: int,
                 report: Any) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: this process dies with the one that spawned it
    if os.getppid() != parent:
        os._exit(1)
    os.environ.update(variables)
    try:
        fn(rank, *args)
    except Exception as error:
        lost_another = isinstance(error, Error) and error.kind in (ErrorKind.peer_lost, ErrorKind.left)
        report.send((lost_another, traceback.format_exc()))
        sys.exit(1)


def spawn(fn: Callable[..., None], nprocs: int, args: Sequence[Any] = (), *, start_method: str = "spawn",
          grace_period: float = 30) -> None:
    """Runs fn(rank, *args) in `nprocs` processes, with ranks from 0, and returns when all have succeeded: a job on one
    host without a launcher, like torch.multiprocessing.spawn.

    Each process has the environment variables of its rank, so init_process_group() joins the others. If one fails,
    the others get SIGTERM, and SIGKILL after the grace period; then Error of kind peer_lost has the traceback of the
    rank that failed. `start_method` is one of multiprocessing: with "spawn", `fn` has to be a function of a module.
    """
    if nprocs < 1:
        raise Error(f"ddp: spawn: nprocs must be above 0, not {nprocs}", ErrorKind.usage)
    context: Any = multiprocessing.get_context(start_method)
    store = TcpStore("127.0.0.1", 0, is_master=True)
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
              "WORLD_SIZE": str(nprocs), "LOCAL_WORLD_SIZE": str(nprocs)}  # fmt: skip
    processes, reports = [], []
    for rank in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        variables = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        process = context.Process(target=_run_spawned, args=(fn, rank, args, variables, os.getpid(), sender))
        process.start()
        sender.close()
        processes.append(process)
        reports.append(receiver)
    _wait_for(processes, reports, grace_period)


def _wait_for(processes: Sequence[Any], reports: Sequence[Any], grace_period: float) -> None:
    running = dict(enumerate(processes))
    failures = []
    sent: Set[int] = set()  # the signals by which processes end that did not fail
    deadline: Optional[float] = None
    while running:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ended = multiprocessing.connection.wait([process.sentinel for process in running.values()], left)
        for rank in [rank for rank, process in running.items() if process.sentinel in ended]:
            process = running.pop(rank)
            process.join()
            if process.exitcode != 0 and -process.exitcode not in sent:
                failures.append(_failure(rank, process.exitcode, reports[rank]))
        signal_number = signal.SIGTERM if failures and deadline is None else None if ended else signal.SIGKILL
        if signal_number is not None:
            deadline = deadline or time.monotonic() + grace_period
            sent.add(signal_number)
            for process in running.values():
                os.kill(process.pid, signal_number)
    if failures:
        # A rank that failed because it lost another one is not the cause.
        raise Error(min(failures, key=lambda failure: failure[0])[1], ErrorKind.peer_lost)


def _failure(rank: int, code: int, report: Any) -> Tuple[bool, str]:
    try:
        lost_another, text = report.recv()
        return lost_another, f"ddp: spawn: rank {rank} failed: {text}"
    except EOFError:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return False, f"ddp: spawn: rank {rank} {how}"
