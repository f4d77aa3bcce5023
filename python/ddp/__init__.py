# SPDX-License-Identifier: Apache-2.0
"""Collectives for distributed programs: the library ddp of ddprun, for numpy, PyTorch, JAX, CuPy and all other
libraries with DLPack or the buffer protocol.

    import ddp, numpy
    group = ddp.init_process_group()
    gradients = numpy.ones(1000, "float32")
    group.all_reduce(gradients)

The names are those of the C++ library; times are seconds.
"""
from ddp._group import DeviceMesh, P2POp, ProcessGroup, Work, init_process_group, mesh
from ddp._process import heartbeat, local_device, record, spawn, write_trace
from ddp._stores import FileStore, HashStore, PrefixStore, Store, TcpStore
from ddp._training import Checkpoint, DistributedSampler
from ddp._types import Buffer, DataType, Error, ErrorKind, ReduceOp, View, view

__all__ = [
    "Buffer", "Checkpoint", "DataType", "DeviceMesh", "DistributedSampler", "Error", "ErrorKind", "FileStore",
    "HashStore", "P2POp", "PrefixStore", "ProcessGroup", "ReduceOp", "Store", "TcpStore", "View", "Work", "heartbeat",
    "init_process_group", "local_device", "mesh", "record", "spawn", "view", "write_trace",
]  # fmt: skip

Error.__module__ = "ddp"
