# SPDX-License-Identifier: Apache-2.0
"""A worker of six, in two rows of three: rank 4 differs from the others of its row, in the third step."""
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group('gloo')
rank = dist.get_rank()
rows = init_device_mesh('cpu', (2, 3), mesh_dim_names=('replicate', 'shard'))['shard']
row = rows.get_group()
weights = torch.ones(4)


def mesh():
    dist.all_reduce(weights, group=row)


def fsdp():
    model(torch.ones(2, 6)).sum().backward()
    model.zero_grad()


def pipeline():
    """Ranks of the first row have the first half of the model, and those of the second row the second half."""
    if rank < 3:
        dist.send(weights, rank + 3)
        dist.recv(weights, rank + 3)
    else:
        dist.recv(weights, rank - 3)
        if step == 2 and rank == 4:
            time.sleep(600)
        dist.send(weights, rank - 3)
    dist.all_reduce(weights, group=row)


if sys.argv[1] == 'fsdp':
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 3))
    fully_shard(model, mesh=rows)
for step in range(4):
    if step == 2 and rank == 4 and sys.argv[1] != 'pipeline':
        dist.barrier(group=row)
    globals()[sys.argv[1]]()
dist.barrier()
