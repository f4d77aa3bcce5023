# SPDX-License-Identifier: Apache-2.0
"""Trains with DistributedDataParallel and DistributedSampler; rank 0 prints the loss at the end.

The loss depends neither on the number of workers nor on how often they were killed: each epoch ends
with a checkpoint, and --kill SEED makes a random worker kill itself in a random step of each attempt
except the last.
"""
import argparse
import os
import random
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS, POINTS, BATCH = 6, 96, 24
STEPS = POINTS // BATCH


def expect_empty_store():
    """Of an earlier attempt, nothing is left in the launcher's store."""
    if os.environ["TORCHELASTIC_USE_AGENT_STORE"] != "True":
        return
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), wait_for_workers=False
    )
    visits = store.add("visits", 1)
    assert visits <= int(os.environ["WORLD_SIZE"]), "the store has a key of an earlier attempt"


def planned_death(seed, steps_left):
    """The rank and the step of this attempt's death, which comes before its end."""
    attempt, last = (os.environ["TORCHELASTIC_" + n] for n in ("RESTART_COUNT", "MAX_RESTARTS"))
    if seed is None or attempt == last:
        return None
    choice = random.Random(f"{seed} {attempt}")
    return choice.randrange(dist.get_world_size()), choice.randrange(min(2 * STEPS, steps_left))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint")
    parser.add_argument("--kill", metavar="SEED")
    arguments = parser.parse_args()
    assert dist.is_torchelastic_launched()
    expect_empty_store()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    inputs = torch.randn(POINTS, 8)
    data = TensorDataset(inputs, (inputs ** 2).sum(1, keepdim=True))
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    model = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, BATCH // size, sampler=sampler)
    first = 0
    if arguments.checkpoint and os.path.exists(arguments.checkpoint):
        saved = torch.load(arguments.checkpoint)
        module.load_state_dict(saved["model"])
        first = saved["epochs"]
    death = planned_death(arguments.kill, (EPOCHS - first) * STEPS)
    if rank == 0:
        print(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']} begins with epoch {first}")

    step = 0
    for epoch in range(first, EPOCHS):
        sampler.set_epoch(epoch)
        for points, wanted in loader:
            if death == (rank, step):
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(points), wanted).backward()
            optimizer.step()
            step += 1
        if arguments.checkpoint and rank == 0:
            torch.save({"model": module.state_dict(), "epochs": epoch + 1}, arguments.checkpoint + ".new")
            os.replace(arguments.checkpoint + ".new", arguments.checkpoint)
    if rank == 0:
        with torch.no_grad():
            loss = torch.nn.functional.mse_loss(module(data.tensors[0]), data.tensors[1])
        print(f"loss {loss.item():.4f}")
    dist.destroy_process_group()
    # At the end of the interpreter PyTorch 2.15 now and then destroys a thread of its own that still
    # runs ("terminate called without an active exception"), under torchrun, too.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
