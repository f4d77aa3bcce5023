# SPDX-License-Identifier: Apache-2.0
"""Groups and their calls."""
import array
import asyncio
import atexit
import ctypes
import pickle
import sys
import weakref
from types import TracebackType
from typing import Any, Dict, Generator, List, NamedTuple, Optional, Sequence, Type, TypeVar, Union, overload

from ddp import _native
from ddp._stores import Store
from ddp._types import Buffer, Error, ErrorKind, ReduceOp

T = TypeVar("T")
_living: "weakref.WeakSet[ProcessGroup]" = weakref.WeakSet()


def _milliseconds(seconds: Optional[float], default: int) -> int:
    return default if seconds is None else int(seconds * 1000)


class Work:
    """An asynchronous call. It keeps its buffers until it is done, also if the Work is dropped before.

    `await work` waits in a thread of asyncio, and `work.wait()` in this one.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def is_completed(self) -> bool:
        """Whether this rank's part has ended, with or without an error. Never blocks."""
        return bool(_native.work_is_completed(self._handle))

    def error(self) -> Optional[Error]:
        """The error of the call; None while it runs and if it succeeded. Never blocks."""
        try:
            _native.work_error(self._handle)
        except Error as error:
            return error
        return None

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits for this rank's part. After `timeout` seconds raises Error of kind timed_out: the call continues."""
        _native.work_wait(self._handle, _milliseconds(timeout, -1))

    def duration(self) -> Optional[float]:
        """How many seconds this rank's part took; None if that is not known."""
        nanoseconds = _native.work_duration(self._handle)
        return None if nanoseconds < 0 else nanoseconds * 1e-9

    def __await__(self) -> Generator[Any, None, None]:
        if self.is_completed():
            self.wait()
        else:
            yield from asyncio.get_running_loop().run_in_executor(None, self.wait).__await__()


class P2POp(NamedTuple):
    """One message of batch_send_recv(): P2POp.send(x, to), P2POp.recv(x, from_)."""

    sends: bool
    data: Buffer
    peer: int
    tag: int

    @staticmethod
    def send(data: Buffer, to: int, tag: int = 0) -> "P2POp":
        """A message to rank `to`."""
        return P2POp(True, data, to, tag)

    @staticmethod
    def recv(data: Buffer, from_: int, tag: int = 0) -> "P2POp":
        """A message from rank `from_`."""
        return P2POp(False, data, from_, tag)


class ProcessGroup:
    """A group of processes, each with a rank from 0 to size - 1, and their collective calls.

    Every rank makes the same calls in the same order. A call returns when this rank's part is done, and releases the
    GIL meanwhile. The call of the same name with an i in front returns a Work at once.

    Buffers are arrays of numpy, PyTorch, JAX or CuPy, and other objects of the buffer protocol or of DLPack, whose
    elements lie side by side in C's order. The arrays of JAX cannot be written: pass another one for the output. In
    place: the output is the input itself.

    A group of one rank works without a launcher:

    >>> import array, ddp
    >>> group = ddp.init_process_group(store=ddp.HashStore(), rank=0, world_size=1)
    >>> values = array.array("f", [1, 2])
    >>> group.all_reduce(values)
    >>> group.all_reduce(2.5, op=ddp.ReduceOp.max)
    2.5
    >>> group.all_gather_object({"step": 7})
    [{'step': 7}]
    >>> group.close()

    As a context manager, a group is left at the end of the block. If the block raises, calls of ranks that wait for this
    one fail.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        _living.add(self)

    def close(self) -> None:
        """Leaves the group. The process ends later, when the ranks do not need this one any more."""
        self._handle = None

    def __enter__(self) -> "ProcessGroup":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self._leave(has_failed=kind is not None)

    def _leave(self, has_failed: bool) -> None:
        if has_failed and self._handle is not None:
            _native.group_abandon(self._handle)
        self.close()

    @property
    def rank(self) -> int:
        """This process's rank in the group."""
        return int(_native.rank(self._handle))

    @property
    def size(self) -> int:
        """The number of ranks."""
        return int(_native.size(self._handle))

    @property
    def backend(self) -> str:
        """cpu, mpi or nccl."""
        return str(_native.backend(self._handle))

    @property
    def timeout(self) -> float:
        """The longest time of each call, in seconds."""
        return float(_native.timeout(self._handle)) / 1000

    def set_timeout(self, seconds: float) -> None:
        """Sets the longest time of each later call."""
        _native.set_timeout(self._handle, _milliseconds(seconds, 0))

    def barrier(self) -> None:
        """Waits for every rank."""
        _native.barrier(self._handle, False)

    def ibarrier(self) -> Work:
        """Begins a barrier()."""
        return Work(_native.barrier(self._handle, True))

    def broadcast(self, data: Buffer, root: int = 0) -> None:
        """Overwrites `data` on every rank with what `root` has."""
        _native.broadcast(self._handle, data, root, False)

    def ibroadcast(self, data: Buffer, root: int = 0) -> Work:
        """Begins a broadcast()."""
        return Work(_native.broadcast(self._handle, data, root, True))

    def reduce(self, input: Buffer, output: Optional[Buffer] = None, root: int = 0,
               op: ReduceOp = ReduceOp.sum) -> None:
        """Combines all ranks' `input` in `output` of `root`; in place without `output`."""
        _native.reduce(self._handle, input, self._place(input, output, root), root, op, False)

    def ireduce(self, input: Buffer, output: Optional[Buffer] = None, root: int = 0,
                op: ReduceOp = ReduceOp.sum) -> Work:
        """Begins a reduce()."""
        return Work(_native.reduce(self._handle, input, self._place(input, output, root), root, op, True))

    def _place(self, input: Buffer, output: Optional[Buffer], root: int) -> Optional[Buffer]:
        return input if output is None and self.rank == root else output

    @overload
    def all_reduce(self, input: Buffer, output: Optional[Buffer] = None, op: ReduceOp = ReduceOp.sum) -> None: ...

    @overload
    def all_reduce(self, input: float, output: None = None, op: ReduceOp = ReduceOp.sum) -> float: ...

    def all_reduce(self, input: Union[Buffer, float], output: Optional[Buffer] = None,
                   op: ReduceOp = ReduceOp.sum) -> Optional[float]:
        """Combines all ranks' `input` in `output`; in place without `output`. Returns the combination of numbers."""
        if isinstance(input, (int, float)):
            number = array.array("q" if isinstance(input, int) else "d", [input])
            _native.all_reduce(self._handle, number, number, op, False)
            return number[0]
        _native.all_reduce(self._handle, input, input if output is None else output, op, False)
        return None

    def iall_reduce(self, input: Buffer, output: Optional[Buffer] = None, op: ReduceOp = ReduceOp.sum) -> Work:
        """Begins an all_reduce()."""
        return Work(_native.all_reduce(self._handle, input, input if output is None else output, op, True))

    def gather(self, input: Buffer, output: Optional[Buffer] = None, root: int = 0) -> None:
        """Collects all ranks' `input` in `output` of `root`."""
        _native.gather(self._handle, input, output, root, False)

    def igather(self, input: Buffer, output: Optional[Buffer] = None, root: int = 0) -> Work:
        """Begins a gather()."""
        return Work(_native.gather(self._handle, input, output, root, True))

    def gather_v(self, input: Buffer, output: Optional[Buffer] = None, counts: Optional[List[int]] = None,
                 root: int = 0) -> None:
        """Collects blocks of `counts` elements; only `root` passes `output` and `counts`."""
        _native.gather_v(self._handle, input, output, self._counts(counts), root, False)

    def igather_v(self, input: Buffer, output: Optional[Buffer] = None, counts: Optional[List[int]] = None,
                  root: int = 0) -> Work:
        """Begins a gather_v()."""
        return Work(_native.gather_v(self._handle, input, output, self._counts(counts), root, True))

    def _counts(self, counts: Optional[Sequence[int]]) -> Optional[List[int]]:
        if counts is not None and len(counts) != self.size:
            raise Error(f"ddp: {len(counts)} counts for {self.size} ranks", ErrorKind.usage, self.rank)
        return None if counts is None else list(counts)

    def all_gather(self, input: Buffer, output: Buffer) -> None:
        """Collects all ranks' `input` in `output`."""
        _native.all_gather(self._handle, input, output, False)

    def iall_gather(self, input: Buffer, output: Buffer) -> Work:
        """Begins an all_gather()."""
        return Work(_native.all_gather(self._handle, input, output, True))

    def all_gather_v(self, input: Buffer, output: Buffer, counts: Sequence[int]) -> None:
        """Collects blocks of `counts` elements."""
        _native.all_gather_v(self._handle, input, output, self._counts(counts), False)

    def iall_gather_v(self, input: Buffer, output: Buffer, counts: Sequence[int]) -> Work:
        """Begins an all_gather_v()."""
        return Work(_native.all_gather_v(self._handle, input, output, self._counts(counts), True))

    def scatter(self, input: Optional[Buffer], output: Buffer, root: int = 0) -> None:
        """Copies this rank's block of `input` of `root` to `output`."""
        _native.scatter(self._handle, input, output, root, False)

    def iscatter(self, input: Optional[Buffer], output: Buffer, root: int = 0) -> Work:
        """Begins a scatter()."""
        return Work(_native.scatter(self._handle, input, output, root, True))

    def scatter_v(self, input: Optional[Buffer], counts: Optional[Sequence[int]], output: Buffer,
                  root: int = 0) -> None:
        """Copies blocks of `counts` elements; only `root` passes `input` and `counts`."""
        _native.scatter_v(self._handle, input, self._counts(counts), output, root, False)

    def iscatter_v(self, input: Optional[Buffer], counts: Optional[Sequence[int]], output: Buffer,
                   root: int = 0) -> Work:
        """Begins a scatter_v()."""
        return Work(_native.scatter_v(self._handle, input, self._counts(counts), output, root, True))

    def reduce_scatter(self, input: Buffer, output: Buffer, op: ReduceOp = ReduceOp.sum) -> None:
        """Copies this rank's block of the combination of all ranks' `input` to `output`."""
        _native.reduce_scatter(self._handle, input, output, op, False)

    def ireduce_scatter(self, input: Buffer, output: Buffer, op: ReduceOp = ReduceOp.sum) -> Work:
        """Begins a reduce_scatter()."""
        return Work(_native.reduce_scatter(self._handle, input, output, op, True))

    def reduce_scatter_v(self, input: Buffer, output: Buffer, counts: Sequence[int],
                         op: ReduceOp = ReduceOp.sum) -> None:
        """Combines blocks of `counts` elements."""
        _native.reduce_scatter_v(self._handle, input, output, self._counts(counts), op, False)

    def ireduce_scatter_v(self, input: Buffer, output: Buffer, counts: Sequence[int],
                          op: ReduceOp = ReduceOp.sum) -> Work:
        """Begins a reduce_scatter_v()."""
        return Work(_native.reduce_scatter_v(self._handle, input, output, self._counts(counts), op, True))

    def all_to_all(self, input: Buffer, output: Buffer) -> None:
        """Sends block r of `input` to rank r, and stores its block for this rank as block r of `output`."""
        _native.all_to_all(self._handle, input, output, False)

    def iall_to_all(self, input: Buffer, output: Buffer) -> Work:
        """Begins an all_to_all()."""
        return Work(_native.all_to_all(self._handle, input, output, True))

    def all_to_all_v(self, input: Buffer, send_counts: Sequence[int], output: Buffer,
                     recv_counts: Sequence[int]) -> None:
        """Exchanges blocks of different sizes."""
        _native.all_to_all_v(self._handle, input, self._counts(send_counts), output, self._counts(recv_counts), False)

    def iall_to_all_v(self, input: Buffer, send_counts: Sequence[int], output: Buffer,
                      recv_counts: Sequence[int]) -> Work:
        """Begins an all_to_all_v()."""
        return Work(_native.all_to_all_v(self._handle, input, self._counts(send_counts), output,
                                         self._counts(recv_counts), True))  # fmt: skip

    def send(self, data: Buffer, to: int, tag: int = 0) -> None:
        """Sends a message to rank `to`."""
        _native.send(self._handle, data, to, tag, False)

    def isend(self, data: Buffer, to: int, tag: int = 0) -> Work:
        """Begins a send()."""
        return Work(_native.send(self._handle, data, to, tag, True))

    def recv(self, data: Buffer, from_: int, tag: int = 0) -> None:
        """Receives a message from rank `from_`."""
        _native.recv(self._handle, data, from_, tag, False)

    def irecv(self, data: Buffer, from_: int, tag: int = 0) -> Work:
        """Begins a recv()."""
        return Work(_native.recv(self._handle, data, from_, tag, True))

    def probe(self, tag: int = 0) -> int:
        """Waits until a message has come that this rank has begun no recv for, and returns its sender."""
        return int(_native.probe(self._handle, tag))

    def batch_send_recv(self, ops: Sequence[P2POp]) -> None:
        """Moves several messages at once."""
        _native.batch_send_recv(self._handle, list(ops), len(ops), False)

    def batch_isend_irecv(self, ops: Sequence[P2POp]) -> Work:
        """Begins a batch_send_recv()."""
        return Work(_native.batch_send_recv(self._handle, list(ops), len(ops), True))

    def broadcast_object(self, object: T, root: int = 0) -> T:
        """Returns the object of `root`. Objects are pickled: ranks must trust each other."""
        own = pickle.dumps(object) if self.rank == root else None
        return pickle.loads(_native.broadcast_object(self._handle, own, root)[0])  # type: ignore[no-any-return]

    def gather_object(self, object: T, root: int = 0) -> List[T]:
        """Returns all ranks' objects on `root`, and an empty list on the others."""
        return [pickle.loads(each) for each in _native.gather_object(self._handle, pickle.dumps(object), root)]

    def all_gather_object(self, object: T) -> List[T]:
        """Returns all ranks' objects."""
        return [pickle.loads(each) for each in _native.all_gather_object(self._handle, pickle.dumps(object))]

    def new_group(self, ranks: Sequence[int]) -> "Optional[ProcessGroup]":
        """Makes a group of some ranks; None on the others. All ranks call it."""
        return _group_or_none(_native.new_group(self._handle, list(ranks), len(ranks)))

    def split(self, color: int, key: int = 0) -> "Optional[ProcessGroup]":
        """Makes a group of the ranks with the same `color`, ordered by `key`; None if `color` is below 0."""
        return _group_or_none(_native.split(self._handle, color, key))

    def split_by_node(self) -> "ProcessGroup":
        """Makes a group of the ranks on this machine."""
        return ProcessGroup(_native.split_by_node(self._handle))

    def shrink(self, excluded: Optional[Sequence[int]] = None) -> "ProcessGroup":
        """Makes a group of the ranks that are not `excluded`, which may be dead, and aborts this one. None excludes the
        ranks that the group's failure names as lost."""
        ranks = None if excluded is None else list(excluded)
        return ProcessGroup(_native.shrink(self._handle, ranks, len(ranks or ())))

    def allocate(self, size: int) -> memoryview:
        """Allocates `size` bytes of host memory in which the group's calls are fastest: numpy.frombuffer(memory,
        "float32") is an array of it."""
        if self.backend == "nccl":
            raise Error("ddp: allocate() returns host memory, which nccl has none of", ErrorKind.usage, self.rank)
        handle, address = _native.allocate(self._handle, size)
        memory = (ctypes.c_ubyte * size).from_address(address)
        memory._handle = handle  # type: ignore[attr-defined]
        return memoryview(memory).cast("B")

    def abort(self) -> None:
        """Gives the group up, also while other threads are in its calls: these raise Error."""
        _native.abort(self._handle)


def _group_or_none(handle: Any) -> Optional[ProcessGroup]:
    return None if handle is None else ProcessGroup(handle)


def _close_all() -> None:
    # The interpreter has printed the exception that ends the program: the others must not wait for this rank.
    has_failed = getattr(sys, "last_value", None) is not None
    for group in list(_living):
        group._leave(has_failed)


atexit.register(_close_all)


def init_process_group(backend: Optional[str] = None, init_method: Optional[str] = None, *,
                       timeout: Optional[float] = None, device: Optional[int] = None, store: Optional[Store] = None,
                       rank: int = -1, world_size: int = 0, names: Optional[Sequence[int]] = None) -> ProcessGroup:
    """Joins the group that the launcher or the arguments describe, and waits for every rank.

    `timeout`, in seconds, is the longest time of joining and of each call. `device` is the number of this process's
    GPU. `rank` and `world_size` are the launcher's if they are left out. `names` are numbers by which messages name the
    ranks, one for each: for some ranks of a job, which meet in `store` as a group of their own.
    """
    if names is not None and len(names) != world_size:
        raise Error(f"ddp: {len(names)} names of ranks for a world_size of {world_size}", ErrorKind.usage)
    own_store = None if store is None else store._handle
    options = (backend, init_method, own_store, rank, world_size, _milliseconds(timeout, 0), device,
               None if names is None else list(names))  # fmt: skip
    return ProcessGroup(_native.init_process_group(options))


class DeviceMesh:
    """The ranks of a group as an array of several dimensions: see mesh()."""

    def __init__(self, whole: ProcessGroup, dimensions: Dict[str, int]) -> None:
        #: the group of all ranks
        self.whole = whole
        #: the dimensions as passed to mesh()
        self.dimensions = dict(dimensions)
        handles = _native.mesh(whole._handle, list(dimensions), list(dimensions.values()))
        self._groups = {name: ProcessGroup(handle) for name, handle in zip(dimensions, handles)}

    def group(self, dimension: str) -> ProcessGroup:
        """The group of the ranks that differ from this one along `dimension` alone."""
        if dimension not in self._groups:
            raise Error(f"ddp: a mesh of {self.dimensions} has no dimension {dimension}", ErrorKind.usage)
        return self._groups[dimension]


def mesh(dimensions: Dict[str, int], whole: Optional[ProcessGroup] = None) -> DeviceMesh:
    """Arranges the ranks of a group, by default of init_process_group(), as {"dp": 2, "tp": 4}: ranks that differ
    only along the last dimension are neighbours."""
    return DeviceMesh(whole or init_process_group(), dimensions)
