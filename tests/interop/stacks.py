# SPDX-License-Identifier: Apache-2.0
"""A worker of three, of which rank 1 never comes to the collective that the others wait in."""
import signal

import torch
import torch.distributed as dist


def load_batch():
    print("loading", flush=True)
    signal.pause()


def train():
    if dist.get_rank() == 1:
        load_batch()
    print("waiting", flush=True)
    dist.all_reduce(torch.ones(1))


dist.init_process_group("gloo")
train()
