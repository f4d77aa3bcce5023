# SPDX-License-Identifier: Apache-2.0
"""A worker of bench_interop: records when init_process_group returned, as a Stamp of bench/stamp.h.

Before any restart rank 1 then fails, once all ranks have returned, and records when.
"""
import os
import signal
import struct
import time

import torch.distributed as dist

MAIN, DEATH = 0, 1  # Stamp::Kind
rank, generation = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def record(kind):
    stamp = struct.pack("qiiii", time.monotonic_ns(), kind, os.getpid(), rank, generation)
    file = os.open(os.environ["BENCH_STAMPS"], os.O_WRONLY | os.O_APPEND)
    assert os.write(file, stamp) == len(stamp)


dist.init_process_group("gloo")
record(MAIN)
dist.barrier()
if generation == 0:
    if rank != 1:
        signal.pause()
    record(DEATH)
    os._exit(1)
dist.destroy_process_group()
