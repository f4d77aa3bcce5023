# SPDX-License-Identifier: Apache-2.0
"""Asynchronous calls of the backend for PyTorch."""
import atexit
import queue
import threading
from datetime import timedelta
from functools import partial
from typing import Any, Callable, List, Optional, Sequence

import torch
import torch.distributed as dist

from ddp import _native
from ddp._torch_arguments import Error
from ddp._types import ErrorKind


def milliseconds(timeout: Optional[timedelta]) -> int:
    """The timeout for the C interface; -1 for none, as PyTorch's 0."""
    return -1 if not timeout else max(1, int(timeout.total_seconds() * 1000))


class Completer:
    """Completes the futures of a group's calls in one thread, in the order of the calls."""

    def __init__(self) -> None:
        self._works: "queue.SimpleQueue[Optional[Work]]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._publishing = threading.Lock()

    def complete(self, work: "Work") -> None:
        if threading.current_thread() is self._thread:
            return work.complete()  # a callback, which may wait for this future
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ddp futures", daemon=True)
            self._thread.start()
            atexit.register(self._end)
        self._works.put(work)

    def close(self) -> None:
        self._works.put(None)

    def _end(self) -> None:
        """If a thread comes back from PyTorch while Python ends, std::terminate() ends the process."""
        self._publishing.acquire(timeout=1)  # and keeps it: no future is completed from here on

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            work.fetch()
            with self._publishing:
                work.publish()
            del work  # not kept until the next one


class Work(dist.Work):
    """A call that was begun: one or several calls of the library, and what is to do on this rank afterwards.

    It keeps the tensors of the call.
    """

    def __init__(self, handles: Sequence[Any], outputs: Any, after: Optional[Callable[[], Any]],
                 completer: Completer) -> None:
        super().__init__()
        self._handles = handles
        self._outputs = outputs
        self._after = after
        self._completer = completer
        self._lock = None if after is None else threading.Lock()
        self._promise: Optional[torch.futures.Future[None]] = None
        self._future: Optional[torch.futures.Future[Any]] = None
        self._result: List[Any] = []  # of the future: the outputs or an error

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Waits for this rank's part. After `timeout` raises an error: the call continues."""
        limit = milliseconds(timeout)
        for handle in self._handles:
            _native.work_wait(handle, limit)
        if self._lock is not None:
            self._finish()
        return True

    def _finish(self) -> None:
        assert self._lock is not None
        with self._lock:
            if self._after is not None:
                self._after()
                self._after = None

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if not all(_native.work_is_completed(handle) for handle in self._handles):
            return False
        if self._lock is not None and self.exception() is None:
            self._finish()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[Error]:
        try:
            for handle in self._handles:
                _native.work_error(handle)
        except Error as error:
            return error
        return None

    def result(self) -> Any:
        return self._outputs

    def source_rank(self) -> int:
        raise Error("ddp: this call has no source rank", ErrorKind.usage)

    def _source_rank(self) -> int:
        return self.source_rank()

    def get_future(self) -> "torch.futures.Future[Any]":
        """The future of the call's outputs. It ends with the error, if the call fails."""
        if self._future is None:
            self._promise = torch.futures.Future()
            # A callback's exception is the only way from Python to an error that C++ sees, too.
            self._future = self._promise.then(partial(_native.give, self._result))
            if self.is_completed():
                self.complete()
            else:
                self._completer.complete(self)
        return self._future

    def complete(self) -> None:
        """Waits, and completes the future."""
        self.fetch()
        self.publish()

    def fetch(self) -> None:
        """Waits for what the future gets."""
        try:
            self.wait()
            self._result.append(self._outputs)
        except Exception as error:
            self._result.append(error)

    def publish(self) -> None:
        """Completes the future, with its callbacks."""
        assert self._promise is not None
        self._promise.set_result(None)


class AnySourceWork(Work):
    """A receive from the rank that sends first. A thread waits for the message."""

    def __init__(self, group: Any, buffer: Any, tag: int, turn: threading.Lock, outputs: Any,
                 after: Optional[Callable[[], Any]], completer: Completer) -> None:
        super().__init__((), outputs, after, completer)
        self._begun = threading.Event()
        self._source = -1
        self._error: Optional[Error] = None
        arguments = (group, buffer, tag, turn)
        threading.Thread(target=self._begin, args=arguments, name="ddp any source", daemon=True).start()

    def _begin(self, group: Any, buffer: Any, tag: int, turn: threading.Lock) -> None:
        try:
            with turn:  # two receives must not find the same message
                self._source = _native.probe(group, tag)
                self._handles = [_native.recv(group, buffer, self._source, tag, True)]
        except Error as error:
            self._error = error
        self._begun.set()

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        if not self._begun.wait(timeout.total_seconds() if timeout else None):
            raise Error(f"ddp: no message from any rank came within {timeout}", ErrorKind.timed_out)
        if self._error is not None:
            raise self._error
        return super().wait(timeout)

    def is_completed(self) -> bool:
        return self._begun.is_set() and super().is_completed()

    def exception(self) -> Optional[Error]:
        return self._error or super().exception()

    def source_rank(self) -> int:
        self._begun.wait()
        return self._source


class DoneWork(Work):
    """The work of calls that ended before they returned."""

    def __init__(self, outputs: Any = None) -> None:
        super().__init__((), outputs, None, Completer())
