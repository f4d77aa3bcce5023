# SPDX-License-Identifier: Apache-2.0
"""A worker of bench_interop: notes when it is through init_process_group, as bench/stamp.h has it.

In the first generation rank 1 fails then, as soon as all are through, and notes when.
"""
import os
import signal
import struct
import time

import torch.distributed as dist

MAIN, DEATH = 0, 1  # Stamp::Kind
rank, generation = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def note(kind):
    stamp = struct.pack("qiiii", time.monotonic_ns(), kind, os.getpid(), rank, generation)
    file = os.open(os.environ["BENCH_STAMPS"], os.O_WRONLY | os.O_APPEND)
    assert os.write(file, stamp) == len(stamp)


dist.init_process_group("gloo")
note(MAIN)
dist.barrier()
if generation == 0:
    if rank != 1:
        signal.pause()
    note(DEATH)
    os._exit(1)
dist.destroy_process_group()
