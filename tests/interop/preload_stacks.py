# SPDX-License-Identifier: Apache-2.0
"""Trains with DistributedDataParallel and with FSDP2, whose model it saves and loads by DCP, and prints the losses:
preload_stacks.py FOLDER [imported]"""
import sys

assert ("torch.distributed.fsdp" in sys.modules) == (sys.argv[2:] == ["imported"])
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def new_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def loss_of(model):
    inputs = torch.linspace(-1, 1, 64).view(8, 8) * (1 + dist.get_rank())
    return torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))


def train(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def show(name, model):
    total = loss_of(model).detach()
    dist.all_reduce(total)
    print(f"{name}: loss {total.item():.5f} on rank {dist.get_rank()}", flush=True)


dist.init_process_group("gloo")
replicated = DistributedDataParallel(new_model())
train(replicated)
show("DDP", replicated)

mesh = init_device_mesh("cpu", (dist.get_world_size(),))
sharded = fully_shard(new_model(), mesh=mesh)
train(sharded)
dcp.save({"model": sharded.state_dict()}, checkpoint_id=sys.argv[1])
again = fully_shard(new_model(), mesh=mesh)
state = {"model": again.state_dict()}
dcp.load(state, checkpoint_id=sys.argv[1])
again.load_state_dict(state["model"])
show("FSDP2", again)
dist.destroy_process_group()
