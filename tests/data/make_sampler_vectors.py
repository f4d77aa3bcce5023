#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes to stdout what PyTorch's DistributedSampler gives each rank, as tab-separated values.

usage: make_sampler_vectors.py > sampler-vectors.tsv      (in a Python that has PyTorch)

`indices` are those of PyTorch where they are not shuffled, as runs first+step*count. Where they are
shuffled they are those of ddp's own shuffle, done here a second time after its description in
ddp/sampler.h; `count` and `distinct` (of all ranks together) are PyTorch's in both cases.
"""
import itertools

from torch.utils.data.distributed import DistributedSampler

SIZES, WORLDS, SEED, EPOCH = (1, 7, 1000), (1, 3, 4), 2**64 - 3, 5
MASK = 2**64 - 1


def splitmix64(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def shuffled(size):
    numbers = splitmix64((SEED + EPOCH) & MASK)
    order = list(range(size))
    for places in range(size, 1, -1):
        at = next(n for n in numbers if n < 2**64 // places * places) % places
        order[places - 1], order[at] = order[at], order[places - 1]
    return order


def runs(numbers):
    """[0, 3, 6, 0] -> 0+3*3,0+1*1"""
    out, at = [], 0
    while at < len(numbers):
        end = at + 1
        step = numbers[end] - numbers[at] if end < len(numbers) else 1
        while step > 0 and end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        out.append(f"{numbers[at]}+{max(step, 1)}*{end - at}")
        at = end
    return ",".join(out) or "-"


print("size", "world", "drop_last", "shuffle", "rank", "count", "distinct", "indices", sep="\t")
for size, world, drop_last, shuffle in itertools.product(SIZES, WORLDS, (0, 1), (0, 1)):
    shares = []
    for rank in range(world):
        sampler = DistributedSampler(range(size), world, rank, bool(shuffle), SEED % 2**31, bool(drop_last))
        sampler.set_epoch(EPOCH)
        shares.append(list(sampler))
    distinct = len(set().union(*shares))
    for rank, share in enumerate(shares):
        if shuffle and size > 7:
            text = "-"  # too long to be kept
        elif shuffle:
            order = shuffled(size)
            text = runs([order[(rank + i * world) % size] for i in range(len(share))])
        else:
            text = runs(share)
        print(size, world, drop_last, shuffle, rank, len(share), distinct, text, sep="\t")
