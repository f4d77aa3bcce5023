# SPDX-License-Identifier: Apache-2.0
"""The backend `ddp` of torch.distributed, for tensors on the CPU:

    torch.distributed.init_process_group("ddp")
    torch.distributed.init_process_group("cpu:ddp,cuda:nccl")

PyTorch registers it by itself when it is imported, from 2.5 on; `import ddp.torch` does in all releases.
"""
import os
import zlib
from datetime import timedelta
from typing import Any, Dict, Optional, Sequence, Set

import ddp

# PyTorch, which calls register() at its own end, is imported in the functions: this module may be imported first.


def register() -> None:
    """Registers the backend, if this PyTorch has distributed calls."""
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, "DDP"):
        dist.Backend.register_backend("ddp", _create, extended_api=True, devices=["cpu"])
        # PyTorch's flight recorder attaches to backends in C++. ddp records its calls itself.
        recording: Set[str] = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set())
        recording.add("ddp")


_files: Dict[str, ddp.Store] = {}  # each is opened once in a process


def _store_of(store: Any, prefix: str, size: int) -> ddp.Store:
    """The library's own connection to a store of PyTorch: a TCPStore of PyTorch does one request at a time, and the
    library waits for keys in several threads. The library's files have another format, so they are beside PyTorch's."""
    from torch._C import _distributed_c10d as c10d

    whole: Any = store
    while isinstance(whole, c10d.PrefixStore):
        whole = whole.underlying_store
    if isinstance(whole, c10d.TCPStore):
        own: ddp.Store = ddp.TcpStore(whole.host, whole.port)
    elif isinstance(whole, c10d.FileStore):
        path = str(whole.path)  # type: ignore[attr-defined]
        own = _files.get(path) or ddp.FileStore(path + ".ddp", size)
        _files[path] = own
    else:
        raise ddp.Error(f"ddp: ranks cannot meet in a {type(whole).__name__}, only in a TCPStore or FileStore",
                        ddp.ErrorKind.usage)  # fmt: skip
    return ddp.PrefixStore(prefix, own)


def _create(options: Any, backend_options: Any) -> Any:
    from ddp._torch_devices import ProcessGroupOfDevices, others_of
    from ddp._torch_group import ProcessGroup

    others, bound_device = others_of(options, backend_options)

    def make(rank: int, ranks: Sequence[int], name: str, timeout: Optional[timedelta]) -> ProcessGroup:
        """Joins a group of the job's `ranks`, by which messages name them."""
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        size = len(ranks)
        store = ddp.HashStore() if size == 1 else _store_of(options.store, f"torch/{restart}/{name}", size)
        # The library names a group by a count in its store. ddprun knows the calls of all groups by their names.
        store.add(f"ddp/groups/{rank}", zlib.crc32(str(name).encode()))
        own = ddp.init_process_group("cpu", store=store, rank=rank, world_size=size, names=ranks,
                                     timeout=None if timeout is None else timeout.total_seconds())  # fmt: skip

        def split(members: Sequence[int], timeout: Optional[timedelta], name: str) -> Optional[ProcessGroup]:
            if rank not in members:
                return None
            return make(members.index(rank), [ranks[member] for member in members], name, timeout)

        return (ProcessGroupOfDevices if others else ProcessGroup)(options.store, own, ranks, split)

    ranks = options.global_ranks_in_group or range(options.group_size)
    group = make(options.group_rank, ranks, options.group_id, options.timeout)
    if isinstance(group, ProcessGroupOfDevices):
        group.add(others, bound_device)
    return group


register()
