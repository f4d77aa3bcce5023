# SPDX-License-Identifier: Apache-2.0
"""A rank that waits; the guilty one does what its argument says."""
import os
import sys
import time

from actions import ACTIONS, be_ready

RANKS = ('RANK', 'OMPI_COMM_WORLD_RANK', 'PMI_RANK')
rank = int(next(os.environ[name] for name in RANKS if name in os.environ))
guilty = rank == int(os.environ['FAILURES_RANK'])
action = sys.argv[1]
if action == 'import':
    be_ready(rank)
    if rank >= 2:
        import flash_attn  # noqa: F401
be_ready(rank)
if guilty and action in ACTIONS:
    ACTIONS[action]()
while guilty and action == 'slow':
    pass
time.sleep(600)
