# SPDX-License-Identifier: Apache-2.0
"""All of torch.distributed over gloo, with every init_method.

Rank 0 prints what works. What this version of gloo refuses is printed as refused: launchers are
compared by the output. An error ends the worker with a traceback.
"""
import argparse
import datetime
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

LIMIT = datetime.timedelta(seconds=60)


def value(number):
    return torch.full((3,), float(number))


def expect(tensor, number):
    assert torch.equal(tensor, value(number)), (tensor, number)


def expect_list(tensors, numbers):
    for tensor, number in zip(tensors, numbers, strict=True):
        expect(tensor, number)


def all_reduce(rank, size):
    for op, wanted in (
        (dist.ReduceOp.SUM, size * (size + 1) / 2),
        (dist.ReduceOp.MAX, size),
        (dist.ReduceOp.MIN, 1),
    ):
        tensor = value(rank + 1)
        dist.all_reduce(tensor, op=op)
        expect(tensor, wanted)
    tensor = value(1)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    expect(tensor, size)


def broadcast(rank, size):
    for source in range(size):
        tensor = value(rank)
        dist.broadcast(tensor, source)
        expect(tensor, source)


def reduce(rank, size):
    tensor = value(rank + 1)
    dist.reduce(tensor, size - 1)
    if rank == size - 1:
        expect(tensor, size * (size + 1) / 2)


def all_gather(rank, size):
    tensors = [value(-1) for _ in range(size)]
    dist.all_gather(tensors, value(rank))
    expect_list(tensors, range(size))


def all_gather_into_tensor(rank, size):
    gathered = torch.empty(3 * size)
    dist.all_gather_into_tensor(gathered, value(rank))
    expect_list(gathered.chunk(size), range(size))


def gather(rank, size):
    tensors = [value(-1) for _ in range(size)] if rank == 0 else None
    dist.gather(value(rank), tensors, 0)
    if rank == 0:
        expect_list(tensors, range(size))


def scatter(rank, size):
    tensor = value(-1)
    dist.scatter(tensor, [value(n) for n in range(size)] if rank == 0 else None, 0)
    expect(tensor, rank)


def reduce_scatter(rank, size):
    tensor = value(-1)
    dist.reduce_scatter(tensor, [value(n) for n in range(size)])
    expect(tensor, rank * size)


def reduce_scatter_tensor(rank, size):
    tensor = value(-1)
    dist.reduce_scatter_tensor(tensor, torch.cat([value(n) for n in range(size)]))
    expect(tensor, rank * size)


def all_to_all(rank, size):
    tensors = [value(-1) for _ in range(size)]
    dist.all_to_all(tensors, [value(10 * rank + n) for n in range(size)])
    expect_list(tensors, [10 * n + rank for n in range(size)])


def all_to_all_single(rank, size):
    received = torch.empty(3 * size)
    dist.all_to_all_single(received, torch.cat([value(10 * rank + n) for n in range(size)]))
    expect_list(received.chunk(size), [10 * n + rank for n in range(size)])


def send_recv(rank, size):
    tensor = value(-1)
    if rank == 0:
        dist.send(value(7), 1 % size)
    dist.recv(tensor, (rank - 1) % size)
    expect(tensor, 7 + (rank - 1) % size)
    if rank != 0:
        dist.send(value(7 + rank), (rank + 1) % size)


def isend_irecv(rank, size):
    tensor = value(-1)
    works = [dist.irecv(tensor, (rank - 1) % size), dist.isend(value(rank), (rank + 1) % size)]
    for work in works:
        work.wait()
    expect(tensor, (rank - 1) % size)


def batch_isend_irecv(rank, size):
    tensor = value(-1)
    operations = [
        dist.P2POp(dist.isend, value(rank), (rank + 1) % size),
        dist.P2POp(dist.irecv, tensor, (rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    expect(tensor, (rank - 1) % size)


def objects(rank, size):
    everything = [None] * size
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * 1000 * rank})
    assert [each["rank"] for each in everything] == list(range(size))
    mine = [f"for {n}" for n in range(size)] if rank == 0 else [None] * size
    dist.broadcast_object_list(mine, 0)
    assert mine[-1] == f"for {size - 1}"
    one = [None]
    dist.scatter_object_list(one, mine if rank == 0 else None, 0)
    assert one == [f"for {rank}"]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered, 0)
    assert gathered in (None, list(range(size)))


def new_group(rank, size):
    evens = dist.new_group(list(range(0, size, 2)), timeout=LIMIT)
    odds = dist.new_group(list(range(1, size, 2)), timeout=LIMIT)
    mine, others = (evens, len(range(0, size, 2))) if rank % 2 == 0 else (odds, size // 2)
    tensor = value(1)
    dist.all_reduce(tensor, group=mine)
    expect(tensor, others)


def barrier(rank, size):
    dist.barrier()


def monitored_barrier(rank, size):
    dist.monitored_barrier(timeout=LIMIT)


OPERATIONS = (
    all_reduce, broadcast, reduce, all_gather, all_gather_into_tensor, gather, scatter,
    reduce_scatter, reduce_scatter_tensor, all_to_all, all_to_all_single, send_recv, isend_irecv,
    batch_isend_irecv, objects, new_group, barrier, monitored_barrier,
)  # fmt: skip


def check_operations(rank, size):
    for operation in OPERATIONS:
        try:
            operation(rank, size)
            outcome = "ok"
        except (RuntimeError, TypeError, AttributeError) as error:
            outcome = f"refused: {type(error).__name__}"
        outcomes = [None] * size
        dist.all_gather_object(outcomes, outcome)
        assert len(set(outcomes)) == 1, (operation.__name__, outcomes)
        if rank == 0:
            print(operation.__name__, outcome)


def spawned(index, file, size):
    dist.init_process_group("gloo", f"file://{file}", LIMIT, rank=index, world_size=size)
    tensor = value(1)
    dist.all_reduce(tensor)
    expect(tensor, size)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scratch", required=True, help="a folder of this job's own")
    parser.add_argument("--init", choices=("env", "tcp"), default="env")
    parser.add_argument("--spawn", action="store_true")
    arguments = parser.parse_args()
    scratch = arguments.scratch
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    assert dist.is_torchelastic_launched()

    if arguments.init == "env":
        dist.init_process_group("gloo", timeout=LIMIT)
    else:
        address = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        dist.init_process_group("gloo", address, LIMIT, rank=rank, world_size=size)
    assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
    check_operations(rank, size)
    if arguments.spawn and rank == 0:  # processes of a worker's own, as those of a data loader
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            mp.spawn(spawned, (folder + "/store", 2), nprocs=2)
        print("mp.spawn ok")
    dist.barrier()
    dist.destroy_process_group()

    # A second group over the agent's store would find the keys of the first, as under torchrun.
    dist.init_process_group("gloo", f"file://{scratch}/store", LIMIT, rank=rank, world_size=size)
    all_reduce(rank, size)
    dist.destroy_process_group()
    if rank == 0:
        print("file:// ok")


if __name__ == "__main__":
    main()
