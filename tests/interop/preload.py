# SPDX-License-Identifier: Apache-2.0
"""A worker of preload.sh: preload.py fail|raise|threads|hang."""
import os
import sys
import time

imported = "torch" in sys.modules
import numpy
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.tensor(float(i * i))


def forgotten():
    dist.barrier()
    print("hangs", flush=True)
    time.sleep(600)


def threads():
    a = numpy.ones((600, 600))
    (a @ a).sum()
    print("threads", torch.get_num_threads(), len(os.listdir("/proc/self/task")))


def compute():
    rank, restart = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    if restart == 0:
        sys.exit(rank == 2)
    print(f"sum {total.item()} after restart {restart}, imported before: {imported}, "
          f"threads {torch.get_num_threads()}")
    print("seed", torch.initial_seed(), "numpy", numpy.random.rand())
    for method in "fork", "spawn", "forkserver":
        loader = DataLoader(Squares(), batch_size=4, num_workers=1, multiprocessing_context=method)
        print(f"{method}: {next(iter(loader)).tolist()}")
    dist.barrier()
    dist.destroy_process_group()


@record
def main(what):
    if what == "threads":
        return threads()
    dist.init_process_group("gloo")
    if what == "raise":
        raise ValueError("as asked")
    return forgotten() if what == "hang" else compute()


if __name__ == "__main__":
    main(sys.argv[1])
