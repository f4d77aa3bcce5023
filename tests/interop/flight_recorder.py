# SPDX-License-Identifier: Apache-2.0
"""A worker of three, for flight_recorder.sh: rank 1 makes another collective call than the others."""
import datetime
import os
import sys
import time

print('environment', os.environ.get('PYTHONPATH'), 'DDPRUN_RECORDER_FOLDER' in os.environ, *sys.path[1:], flush=True)
if len(sys.argv) > 1:
    import torch
    import torch.distributed as dist

    dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=3 if sys.argv[1] == 'short' else 100))
    group = dist.new_group([0, 1])  # which rank 2 has no part in
    for _ in range(3):
        dist.all_reduce(torch.ones(20))
    if dist.get_rank() < 2:
        dist.all_reduce(torch.ones(4), group=group)
    if dist.get_rank() == 1:
        dist.barrier()
    elif sys.argv[1] == 'wait' and dist.get_rank() == 2:
        time.sleep(600)
    else:
        dist.all_reduce(torch.ones(20))
