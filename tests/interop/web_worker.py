# SPDX-License-Identifier: Apache-2.0
"""A worker for web.sh: prints steps; rank 1 of round 0 fails when the file "crash" is there."""
import os
import sys
import time

rank, round = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
print(f"rank {rank} begins <b onclick=alert(1)>round {round}</b>", flush=True)
while True:
    print("a step", flush=True)
    if rank == "1" and round == "0" and os.path.exists(sys.argv[1] + "/crash"):
        raise RuntimeError("the loss is <img src=x onerror=alert(2)>")
    time.sleep(0.2)
