# SPDX-License-Identifier: Apache-2.0
"""A worker of three, of which rank 1 does not come to the collective that the others wait in."""
import datetime
import time

import torch
import torch.distributed as dist


def load_batch():
    time.sleep(600)


# Longer than a worker has to stand still until that tells anything.
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
dist.barrier()
if dist.get_rank() == 1:
    load_batch()
dist.all_reduce(torch.ones(1))
