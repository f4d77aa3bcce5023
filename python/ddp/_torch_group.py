# SPDX-License-Identifier: Apache-2.0
"""The process group of the backend for PyTorch.

It is a torch.distributed.ProcessGroup in Python: PyTorch's functions call its methods without c10d's dispatcher, which
costs more than the call, and C++ code such as DDP's reducer calls them, too. A class in C++ would have to be compiled
for each release of PyTorch.
"""
# PyTorch's releases declare these methods differently:
# mypy: disable-error-code="override, assignment"
import sys
import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import ddp
from ddp import _native
from ddp._torch_arguments import (
    TYPES, Error, copy_parts, dense_of, elements, flat_of, is_async, joined, list_in, moved, only, op_number, options_of,
)  # fmt: skip
from ddp._torch_barrier import monitored_barrier, usual_timeout_after
from ddp._torch_work import AnySourceWork, Completer, DoneWork, Work
from ddp._types import ErrorKind, ReduceOp

Tensor = torch.Tensor

_DONE = DoneWork()


class ProcessGroup(dist.ProcessGroup):
    """A group of torch.distributed over the library ddp, for tensors on the CPU.

    The methods are c10d's: their tensors are lists for historical reasons. Tensors on other devices go to the backend
    that init_process_group() names for these.
    """

    supports_splitting = True
    supports_coalescing = False
    supports_shrinking = False
    supports_time_estimate = False

    def __init__(self, store: Any, own: ddp.ProcessGroup, names: Sequence[int],
                 make: Callable[..., "Optional[ProcessGroup]"]) -> None:
        super().__init__(own.rank, own.size)
        self._store = store
        self._own = own
        self._names = names  # the ranks in the job
        self._monitored_barriers = 0
        self._make = make
        self._rank = own.rank
        self._size = own.size
        self._name = ""
        self._description = "undefined"
        self._completer = Completer()
        self._coalesced: Optional[List[Work]] = None
        self._turns: Dict[int, threading.Lock] = {}  # of receives from any rank, by tag

    # The group's properties.

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    def name(self) -> str:
        return "ddp"

    def getBackendName(self) -> str:
        return "ddp"

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._description

    def get_group_store(self) -> Any:
        return self._store

    def __repr__(self) -> str:
        return f"ddp.torch.ProcessGroup(rank={self._rank}, size={self._size}, name={self._name!r})"

    @property
    def _device_types(self) -> List[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> Any:
        if torch.device(device).type == "cpu":
            return self
        raise RuntimeError(f"ddp: this group has no backend for {device}")

    def _get_backend_name(self) -> str:
        return "ddp"

    def _has_hooks(self) -> bool:
        return False

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return 0

    # Life.

    def set_timeout(self, timeout: timedelta) -> None:
        self._own.set_timeout(timeout.total_seconds())

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Leaves the group. If an exception is on its way, calls of ranks that wait for this one fail."""
        self._completer.close()
        self._own._leave(has_failed=sys.exc_info()[0] is not None)

    def abort(self) -> None:
        self._own.abort()

    def split_group(self, ranks: Sequence[int], timeout: Optional[timedelta] = None, opts: Any = None,
                    group_name: Optional[str] = None, group_desc: Optional[str] = None,
                    device_types: Any = None) -> "Optional[ProcessGroup]":
        """A group of some ranks of this one, which all its ranks call."""
        group = self._make(ranks, timeout, group_name)
        if group is not None:
            group._name = group_name or ""
            group._description = group_desc or "undefined"
        return group

    # How calls begin.

    def _begin(self, call: Callable[..., Any], arguments: Tuple[Any, ...], opts: Any, outputs: Any,
               after: Optional[Callable[[], Any]] = None) -> Work:
        handle = self._own._handle
        if self._coalesced is None and not is_async(opts):
            call(handle, *arguments, False)
            if after is not None:
                after()
            return _DONE
        return self._track([call(handle, *arguments, True)], outputs, after)

    def _track(self, handles: List[Any], outputs: Any, after: Optional[Callable[[], Any]]) -> Work:
        work = Work(handles, outputs, after, self._completer)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _all(self, works: Sequence[Work], outputs: Any) -> Work:
        def finish() -> None:
            for work in works:
                work.wait()

        return Work([handle for work in works for handle in work._handles], outputs, finish, self._completer)

    def _start_coalescing(self, device: Any = None) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: Any = None) -> Work:
        works, self._coalesced = self._coalesced, None
        return self._all(works or [], None)

    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing

    # Calls that combine elements.

    def allreduce(self, tensors: Any, opts: Any = None) -> Work:
        if type(opts) is not c10d.AllreduceOptions:
            opts = options_of(c10d.AllreduceOptions, opts, reduceOp=opts)
        tensor = only(tensors)
        if tensor.is_sparse:
            return self._all_reduce_sparse(tensor, opts)
        dense, after = dense_of(tensor)
        buffer = elements(dense)
        return self._begin(_native.all_reduce, (buffer, buffer, op_number(opts.reduceOp)), opts, [tensor], after)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        opts = options_of(c10d.AllreduceCoalescedOptions, opts)
        if len({tensor.dtype for tensor in tensors}) == 1:
            flat = joined(tensors)
            buffer = elements(flat)
            return self._begin(_native.all_reduce, (buffer, buffer, op_number(opts.reduceOp)), opts, list(tensors),
                               lambda: copy_parts(flat, tensors))
        each = options_of(c10d.AllreduceOptions, None, reduceOp=opts.reduceOp)
        return self._waited(self._all([self.allreduce([tensor], each) for tensor in tensors], list(tensors)), opts)

    def _waited(self, work: Work, opts: Any) -> Work:
        if not is_async(opts):
            work.wait()
        return work

    def _all_reduce_sparse(self, tensor: Tensor, opts: Any) -> Work:
        if op_number(opts.reduceOp) != ReduceOp.sum:
            raise Error("ddp: sparse tensors can only be summed", ErrorKind.usage)
        own = tensor.detach().coalesce()
        counts = torch.empty(self._size, dtype=torch.int64)
        handle = self._own._handle
        _native.all_gather(handle, moved(torch.tensor([own._nnz()])), moved(counts), False)
        total = int(counts.sum())
        indices = own.indices().t().contiguous()
        values = own.values().contiguous()
        all_indices = indices.new_empty((total, *indices.shape[1:]))
        all_values = values.new_empty((total, *values.shape[1:]))

        def gather(part: Tensor, whole: Tensor) -> Any:
            width = part[:1].numel() if part.shape[0] else whole[:1].numel()
            sizes = [count * width for count in counts.tolist()]
            return _native.all_gather_v(handle, moved(part), moved(whole), sizes, True)

        def finish() -> None:
            whole = torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.shape).coalesce()
            with torch.no_grad():  # a detached tensor would get the elements for itself
                tensor.copy_(whole)

        return self._waited(self._track([gather(indices, all_indices), gather(values, all_values)], [tensor], finish),
                            opts)

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None) -> Work:
        opts = options_of(c10d.ReduceOptions, opts, rootRank=opts, reduceOp=op)
        tensor = only(tensors)
        dense, after = dense_of(tensor)
        buffer = elements(dense)
        is_root = opts.rootRank == self._rank
        arguments = (buffer, buffer if is_root else None, opts.rootRank, op_number(opts.reduceOp))
        return self._begin(_native.reduce, arguments, opts, [tensor], after if is_root else None)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = options_of(c10d.ReduceScatterOptions, opts, reduceOp=opts)
        output, parts = only(outputs), list_in(inputs)
        flat = joined(parts)
        counts = [part.numel() for part in parts]
        return self._reduce_scatter(output, flat, counts, opts)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        opts = options_of(c10d.ReduceScatterOptions, opts, reduceOp=opts)
        if input.numel() != output.numel() * self._size:
            raise ValueError(
                f"ddp: an input of {input.numel()} elements is not {self._size} times the output of {output.numel()}"
            )
        return self._reduce_scatter(output, input.contiguous(), None, opts)

    _reduce_scatter_base = reduce_scatter_single

    def _reduce_scatter(self, output: Tensor, flat: Tensor, counts: Optional[List[int]], opts: Any) -> Work:
        dense, after = dense_of(output)
        op = op_number(opts.reduceOp)
        if counts is None or len(set(counts)) == 1:
            arguments: Tuple[Any, ...] = (elements(flat), elements(dense), op)
            return self._begin(_native.reduce_scatter, arguments, opts, [output], after)
        return self._begin(_native.reduce_scatter_v, (elements(flat), elements(dense), counts, op), opts, [output],
                           after)

    def reduce_scatter_single_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
                                        opts: Any = None) -> Work:
        opts = options_of(c10d.ReduceScatterOptions, opts)
        works = [self.reduce_scatter_single(output, input, opts) for output, input in zip(outputs, inputs)]
        return self._all(works, list(outputs))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # Calls that move elements.

    def broadcast(self, tensors: Any, opts: Any = None) -> Work:
        opts = options_of(c10d.BroadcastOptions, opts, rootRank=opts)
        tensor = only(tensors)
        dense, after = dense_of(tensor)
        return self._begin(_native.broadcast, (moved(dense), opts.rootRank), opts, [tensor], after)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = options_of(c10d.AllgatherOptions, opts)
        parts, input = list_in(outputs), only(inputs)
        self._check_parts(parts)
        flat, after = flat_of(parts, input)
        return self._all_gather(flat, input, [part.numel() for part in parts], opts, list(parts), after)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        opts = options_of(c10d.AllgatherOptions, opts)
        if output.numel() != input.numel() * self._size:
            raise ValueError(
                f"ddp: an output of {output.numel()} elements is not {self._size} times the input of {input.numel()}"
            )
        dense, after = dense_of(output)
        return self._all_gather(dense, input, None, opts, [output], after)

    _allgather_base = all_gather_single

    def _all_gather(self, flat: Tensor, input: Tensor, counts: Optional[List[int]], opts: Any, outputs: Any,
                    after: Optional[Callable[[], Any]]) -> Work:
        buffers = (moved(input.contiguous()), moved(flat))
        if counts is None or len(set(counts)) == 1:
            return self._begin(_native.all_gather, buffers, opts, outputs, after)
        sizes = self._sizes(counts, flat)
        return self._begin(_native.all_gather_v, (*buffers, sizes), opts, outputs, after)

    def _sizes(self, counts: Sequence[int], of: Tensor) -> List[int]:
        """Counts of elements as counts of what moved() moves."""
        width = 1 if of.dtype in TYPES else of.element_size()
        return [count * width for count in counts]

    def _check_parts(self, parts: Sequence[Tensor]) -> None:
        if len(parts) != self._size:
            raise ValueError(f"ddp: {len(parts)} tensors for {self._size} ranks")

    def allgather_coalesced(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor],
                            opts: Any = None) -> Work:
        opts = options_of(c10d.AllgatherOptions, opts)
        # c10d passes a list for each rank here, and not for each input.
        works = [self.allgather([list(parts)], [input], opts) for parts, input in zip(zip(*outputs), inputs)]
        return self._all(works, list(outputs))

    def all_gather_single_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
                                    opts: Any = None) -> Work:
        opts = options_of(c10d.AllgatherOptions, opts)
        works = [self.all_gather_single(output, input, opts) for output, input in zip(outputs, inputs)]
        return self._all(works, list(outputs))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = options_of(c10d.GatherOptions, opts, rootRank=opts)
        input = only(inputs).contiguous()
        if opts.rootRank != self._rank:
            return self._begin(_native.gather, (moved(input), None, opts.rootRank), opts, [])
        parts = list_in(outputs)
        self._check_parts(parts)
        flat, after = flat_of(parts, input)
        return self._begin(_native.gather, (moved(input), moved(flat), opts.rootRank), opts, list(parts), after)

    def gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        opts = options_of(c10d.GatherOptions, opts, rootRank=opts)
        is_root = opts.rootRank == self._rank
        dense, after = dense_of(output) if is_root else (None, None)
        arguments = (moved(input.contiguous()), None if dense is None else moved(dense), opts.rootRank)
        return self._begin(_native.gather, arguments, opts, [output], after)

    gather_into_tensor = gather_single

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        opts = options_of(c10d.ScatterOptions, opts, rootRank=opts)
        output = only(outputs)
        flat = None
        if opts.rootRank == self._rank:
            parts = list_in(inputs)
            self._check_parts(parts)
            flat = moved(joined(parts))
        dense, after = dense_of(output)
        return self._begin(_native.scatter, (flat, moved(dense), opts.rootRank), opts, [output], after)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> Work:
        opts = options_of(c10d.AllToAllOptions, opts)
        self._check_parts(outputs)
        self._check_parts(inputs)
        flat, after = flat_of(outputs)
        return self._all_to_all(flat, [part.numel() for part in outputs], joined(inputs),
                                [part.numel() for part in inputs], opts, list(outputs), after)  # fmt: skip

    def all_to_all_single(self, output: Tensor, input: Tensor, output_splits: Sequence[int] = (),
                          input_splits: Sequence[int] = (), opts: Any = None) -> Work:
        opts = options_of(c10d.AllToAllOptions, opts)
        dense, after = dense_of(output)
        return self._all_to_all(dense, self._split(output, output_splits), input.contiguous(),
                                self._split(input, input_splits), opts, [output], after)  # fmt: skip

    alltoall_base = all_to_all_single

    def _split(self, tensor: Tensor, splits: Sequence[int]) -> List[int]:
        """The counts of elements for each rank, where a split is a count of rows."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not splits:
            if rows % self._size:
                raise ValueError(f"ddp: {rows} rows cannot be split evenly among {self._size} ranks")
            splits = [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows:
            raise ValueError(f"ddp: the splits {list(splits)} are not {rows} rows for {self._size} ranks")
        width = tensor.numel() // rows if rows else 0
        return [split * width for split in splits]

    def _all_to_all(self, output: Tensor, output_counts: Sequence[int], input: Tensor, input_counts: Sequence[int],
                    opts: Any, outputs: Any, after: Optional[Callable[[], Any]]) -> Work:
        arguments = (moved(input), self._sizes(input_counts, input), moved(output),
                     self._sizes(output_counts, output))  # fmt: skip
        return self._begin(_native.all_to_all_v, arguments, opts, outputs, after)

    def barrier(self, opts: Any = None) -> Work:
        opts = options_of(c10d.BarrierOptions, opts)
        if opts.timeout <= timedelta(0):  # none is given
            return self._begin(_native.barrier, (), opts, [])
        with usual_timeout_after(self._own):
            self.set_timeout(opts.timeout)
            return self._begin(_native.barrier, (), opts, [])

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier whose error names the ranks that did not come, and which leaves the group as it was."""
        if timeout is not None and not isinstance(timeout, timedelta):
            timeout = timedelta(seconds=timeout)
        if timeout is None or timeout < timedelta(0):
            timeout = timedelta(seconds=self._own.timeout)
        self._monitored_barriers += 1
        monitored_barrier(self._own, self._names, self._monitored_barriers, timeout, wait_all_ranks)

    def send(self, tensors: Any, to: int, tag: int = 0) -> Work:
        tensor = only(tensors)
        return self._track([_native.send(self._own._handle, moved(tensor.contiguous()), to, tag, True)], [tensor],
                           None)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Work:
        tensor = only(tensors)
        dense, after = dense_of(tensor)
        return self._track([_native.recv(self._own._handle, moved(dense), source, tag, True)], [tensor], after)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        tensor = only(tensors)
        dense, after = dense_of(tensor)
        turn = self._turns.setdefault(tag, threading.Lock())
        return AnySourceWork(self._own._handle, moved(dense), tag, turn, [tensor], after, self._completer)

    recvAnysource = recv_anysource
