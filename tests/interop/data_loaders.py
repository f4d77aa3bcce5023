# SPDX-License-Identifier: Apache-2.0
"""Trains for ever, with two data-loader processes a rank. SIGTERM saves a checkpoint in the middle of a step."""
import multiprocessing
import os
import signal
import sys

import torch
from torch.utils.data import DataLoader, Dataset

folder = sys.argv[1]
rank = os.environ["RANK"]


class Points(Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        return torch.full((8,), float(i))


def save(*_):
    loaders = multiprocessing.active_children()
    torch.save(total, f"{folder}/checkpoint.{rank}")
    assert len(loaders) == 2 and all(loader.is_alive() for loader in loaders), "no data loader is left"
    os.rename(f"{folder}/checkpoint.{rank}", f"{folder}/saved.{rank}")
    sys.exit(0)


signal.signal(signal.SIGUSR1, lambda *_: open(f"{folder}/noticed.{rank}", "w").close())
total = torch.zeros(8)
for step, batch in enumerate(DataLoader(Points(), batch_size=4, num_workers=2)):
    total += batch.sum(0)
    if step == 4:
        signal.signal(signal.SIGTERM, save)
        open(f"{folder}/trains.{rank}", "w").close()
