# SPDX-License-Identifier: Apache-2.0
"""A worker with a timer, which rank 1 lets expire where the argument is "late"."""
import os
import sys
import time

import torch.distributed.elastic.timer as timer

rank = os.environ["RANK"]
timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
late = sys.argv[1] == "late"
with timer.expires(after=600, scope="begin"):
    print(f"{rank} begins", file=sys.stdout if late else sys.stderr, flush=True)
if late:
    with timer.expires(after=1 if rank == "1" else 600, scope="step 1"):
        time.sleep(600)
print(f"{rank} done", flush=True)
