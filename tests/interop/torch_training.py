# SPDX-License-Identifier: Apache-2.0
"""What torch_training.cc does, with PyTorch's own DistributedDataParallel: prints the same lines.

    ddprun --nproc_per_node 4 torch_training.py DIGITS.csv [cuda]
    ddprun --nproc_per_node 2 torch_training.py bench STEPS [cuda]
"""
import contextlib
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 96  # of all ranks
ON_CUDA = sys.argv[-1] == "cuda"


def numbers(sizes, start):
    count = torch.Size(sizes).numel()
    values = torch.sin(torch.arange(count, dtype=torch.double) * 1.37 + start) * 0.5
    return values.to(torch.float).view(sizes)


def initialize(module, rank):
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(numbers(parameter.shape, 100.0 * rank + i))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.frozen = nn.Linear(128, 32)
        self.head = nn.Linear(32, 10)
        self.other_head = nn.Linear(32, 10)
        self.no_head = nn.Linear(32, 10)
        self.frozen.requires_grad_(False)

    def forward(self, images, other):
        features = torch.relu(self.norm(self.conv(images)))
        pooled = torch.max_pool2d(features, 2).flatten(1)
        hidden = torch.relu(self.frozen(pooled))
        return self.other_head(hidden) if other else self.head(hidden)


class Trainer:
    def __init__(self, name, group, images, labels):
        self.name, self.rank, self.size = name, dist.get_rank(group), dist.get_world_size(group)
        self.images, self.labels = images, labels
        self.net = Net()
        initialize(self.net, self.rank)
        self.net.to(images.device)
        self.model = DistributedDataParallel(
            self.net, process_group=group, find_unused_parameters=True, gradient_as_bucket_view=True
        )
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)

    def print(self, what, value):
        print(f"{self.name}, {self.size} ranks, rank {self.rank}: {what} {value:.9g}", flush=True)

    def loss(self, batch, other=False):
        part = BATCH // self.size
        first = batch * BATCH + self.rank * part
        out = self.model(self.images[first : first + part], other)
        return nn.functional.cross_entropy(out, self.labels[first : first + part])

    def step(self, *batches, other=False):
        self.optimizer.zero_grad()
        for batch in batches:
            scope = contextlib.nullcontext() if batch == batches[-1] else self.model.no_sync()
            with scope:
                loss = self.loss(batch, other)
                loss.backward()
        self.optimizer.step()
        self.print("loss", loss.item())

    def print_state(self):
        self.print("parameters", sum(p.abs().sum().item() for p in self.net.parameters()))
        self.print("gradient of no_head", 0 if self.net.no_head.weight.grad is None else 1)

    def evaluate(self):
        self.net.eval()
        with torch.no_grad():
            self.print("held out", self.loss(15).item())
        self.print("mean", self.net.norm.running_mean.sum().item())


def train(group, images, labels):
    plain = Trainer("plain", group, images, labels)
    for batch in range(12):
        plain.step(batch)
    plain.evaluate()
    plain.print_state()

    accumulating = Trainer("no_sync", group, images, labels)
    for batch in range(0, 8, 2):
        accumulating.step(batch, batch + 1)
    accumulating.print_state()

    heads = Trainer("unused", group, images, labels)
    for batch in range(6):
        heads.step(batch, other=batch > 1 and batch % 3 == heads.rank)
    heads.print_state()

    if ON_CUDA:
        return
    uneven = Trainer("join", group, images, labels)
    with uneven.model.join():
        for batch in range(2 + uneven.rank):
            uneven.step(batch)
    uneven.print_state()


def run(path, device):
    with open(path) as lines:
        table = torch.tensor([[float(field) for field in line.split(",")] for line in lines])
    images, labels = (table[:, :64] / 16).view(-1, 1, 8, 8), table[:, 64].to(torch.long)
    images, labels = images.to(device), labels.to(device)
    for size in (1, 2, 4):
        if size > dist.get_world_size():
            break
        group = dist.new_group(range(size))
        if dist.get_rank() < size:
            train(group, images, labels)


def bench(steps, device):
    layers = nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    initialize(layers, 0)
    layers.to(device)
    model = DistributedDataParallel(layers, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
    images, labels = numbers((32, 784), 0).to(device), torch.arange(32, device=device) % 10
    times = []
    for _ in range(steps):
        dist.barrier()
        if ON_CUDA:
            torch.cuda.synchronize()
        began = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if ON_CUDA:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1000)
    if dist.get_rank() == 0:
        print(f"{statistics.median(times):.3f}")


device = torch.device("cpu")
if ON_CUDA:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.backends.cudnn.allow_tf32 = False
dist.init_process_group("nccl" if ON_CUDA else "gloo")
if sys.argv[1] == "bench":
    bench(int(sys.argv[2]), device)
else:
    run(sys.argv[1], device)
dist.barrier()
sys.stdout.flush()
os._exit(0)  # at the end of the interpreter PyTorch 2.15 now and then destroys a thread that runs
