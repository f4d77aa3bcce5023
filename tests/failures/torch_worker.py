# SPDX-License-Identifier: Apache-2.0
"""A rank of four whose collective calls of PyTorch go wrong: `hang`, `desync` or `sizes`, as in worker.cc."""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

# Takes the variables by each launcher's names.
for name, other in (('RANK', 'OMPI_COMM_WORLD_RANK'), ('WORLD_SIZE', 'OMPI_COMM_WORLD_SIZE')):
    if name not in os.environ:
        os.environ[name] = os.environ[other]
os.environ.setdefault('MASTER_ADDR', '127.0.0.1')
os.environ.setdefault('MASTER_PORT', '29511')


def load_batch():
    time.sleep(600)


# Longer than a worker has to stand still until that tells anything.
dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=20))
guilty = dist.get_rank() == int(os.environ['FAILURES_RANK'])
action = sys.argv[1]
dist.barrier()
if guilty and action == 'hang':
    load_batch()
gradients = torch.ones(8 if guilty and action == 'sizes' else 4)
if guilty and action == 'desync':
    dist.barrier()
else:
    dist.all_reduce(gradients)
dist.destroy_process_group()
