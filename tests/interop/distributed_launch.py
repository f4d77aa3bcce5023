# SPDX-License-Identifier: Apache-2.0
"""A script from before torchrun: its local rank is an argument."""
import argparse
import os
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", "--local-rank", type=int, default=-1, dest="local_rank")
parser.add_argument("--lr", type=float)
arguments = parser.parse_args()
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# One write: torchrun's workers share the file.
sys.stdout.write(f"rank {rank} of {size}: local rank {arguments.local_rank}, lr {arguments.lr}\n")
