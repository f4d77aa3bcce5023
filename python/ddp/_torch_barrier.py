# SPDX-License-Identifier: Apache-2.0
"""monitored_barrier() of the backend for PyTorch: of messages, so that its time-out does not fail the group.

Every other rank sends the number of the barrier to rank 0, which answers when all have come, or names those that have
not. The errors have gloo's words.
"""
import array
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import Iterator, Sequence

import ddp
from ddp import _native
from ddp._torch_arguments import Error
from ddp._types import ErrorKind

_ARRIVAL, _ANSWER = 2**31 - 1, 2**31 - 2  # tags that programs do not use
_GOOD, _FAILED = 0, 1


@contextmanager
def usual_timeout_after(group: ddp.ProcessGroup) -> Iterator[None]:
    """Sets the group's timeout at the end to what it was."""
    usual = group.timeout
    try:
        yield
    finally:
        group.set_timeout(usual)


def _next_message(group: ddp.ProcessGroup, deadline: float, tag: int) -> "tuple[int, array.array[int]]":
    """The next message with this tag: its sender, number of the barrier and answer. Throws timed_out at the deadline."""
    group.set_timeout(max(deadline - time.monotonic(), 0.001))
    sender = _native.probe(group._handle, tag)
    message = array.array("q", [0, 0])
    group.recv(message, sender, tag)
    return sender, message


def monitored_barrier(group: ddp.ProcessGroup, names: Sequence[int], number: int, timeout: timedelta,
                      wait_all_ranks: bool) -> None:
    """The barrier with this number. `names` are the ranks in the job."""
    deadline = time.monotonic() + timeout.total_seconds()
    with usual_timeout_after(group):
        if group.rank == 0:
            _await_others(group, names, number, timeout, deadline, wait_all_ranks)
        else:
            # Rank 0 may have begun later. Its error names the ranks that did not come, so it shall be the first.
            _await_answer(group, names, number, deadline + timeout.total_seconds())


def _await_others(group: ddp.ProcessGroup, names: Sequence[int], number: int, timeout: timedelta, deadline: float,
                  wait_all_ranks: bool) -> None:
    spent = int(timeout.total_seconds() * 1000)
    if not spent:
        raise Error(f"ddp: Rank {names[0]} timed out in monitoredBarrier after 0 ms", ErrorKind.timed_out, names[0])
    absent = set(range(1, group.size))
    try:
        while absent:
            sender, message = _next_message(group, deadline, _ARRIVAL)
            if message[0] == number:
                absent.remove(sender)
            else:  # it came late to a barrier that has failed
                group.send(array.array("q", [message[0], _FAILED]), sender, _ANSWER)
    except ddp.Error as error:
        if error.kind != ErrorKind.timed_out:
            raise
    for rank in set(range(1, group.size)) - absent:
        group.send(array.array("q", [number, _FAILED if absent else _GOOD]), rank, _ANSWER)
    if absent:
        late = [names[rank] for rank in sorted(absent)]
        which = f"Rank {late[0]}"
        if wait_all_ranks and len(late) > 1:
            which = "Ranks " + ", ".join(map(str, late))
        raise Error(f"ddp: {which} failed to pass monitoredBarrier in {spent} ms", ErrorKind.timed_out, names[0])


def _await_answer(group: ddp.ProcessGroup, names: Sequence[int], number: int, deadline: float) -> None:
    try:
        group.send(array.array("q", [number, 0]), 0, _ARRIVAL)
        message = array.array("q", [0, 0])
        while message[0] != number:
            _, message = _next_message(group, deadline, _ANSWER)
        if message[1] == _GOOD:
            return
        why, kind = f"see the error of rank {names[0]}", ErrorKind.timed_out
    except ddp.Error as error:
        why, kind = str(error), error.kind
    rank = names[group.rank]
    raise Error(f"ddp: Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                f"from rank {names[0]}: {why}", kind, rank)
