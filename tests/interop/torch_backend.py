# SPDX-License-Identifier: Apache-2.0
"""The backend ddp of torch.distributed: torch_backend.py WHAT, one rank. Exits 1 at the first value that is not as
expected."""
import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import ddp  # for its errors: PyTorch has imported the backend

SUM, MAX = dist.ReduceOp.SUM, dist.ReduceOp.MAX


def full(value, *shape, dtype=torch.float32):
    return torch.full(shape or (3,), value, dtype=dtype)


def expect(tensor, values):
    values = torch.as_tensor(values, dtype=tensor.dtype).expand_as(tensor)
    assert torch.equal(tensor, values), (tensor, values)


def fails(kind, words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except dist.DistBackendError as error:
        assert isinstance(error, ddp.Error) and error.kind == kind and words in str(error), error
        return error
    raise AssertionError(f"no error: {call} {arguments}")


def both(call, *arguments, check, **named):
    """Makes a call that waits, and then one that does not."""
    call(*arguments, **named)
    check()
    work = call(*arguments, async_op=True, **named)
    if work is not None:
        work.wait()
        assert work.is_completed() and work.is_success() and work.exception() is None
    check()


def reductions(rank, size):
    total = sum(range(1, size + 1))
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8):
        tensor = full(rank + 1, dtype=dtype)
        dist.all_reduce(tensor)
        expect(tensor, total)
    for op, value in ((SUM, total), (MAX, size), (dist.ReduceOp.MIN, 1), (dist.ReduceOp.AVG, total / size)):
        tensor = full(rank + 1)
        dist.all_reduce(tensor, op)
        expect(tensor, value)
        tensor = full(rank + 1)
        future = dist.all_reduce(tensor, op, async_op=True).get_future()
        expect(future.wait()[0], value)
        expect(tensor, value)
    bits = full(1 << rank, dtype=torch.int32)
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    expect(bits, (1 << size) - 1)
    number = torch.tensor(complex(rank + 1, 1))
    dist.all_reduce(number)
    assert number.item() == complex(total, size)
    column = torch.arange(6.0).reshape(2, 3).t()  # not contiguous
    dist.all_reduce(column)
    expect(column, (torch.arange(6.0).reshape(2, 3) * size).t())
    parameter = torch.nn.Parameter(full(rank + 1))
    dist.all_reduce(parameter)
    expect(parameter.detach(), total)
    empty = torch.empty(0)
    dist.all_reduce(empty)

    tensor = full(rank + 1)
    dist.reduce(tensor, dst=size - 1)
    expect(tensor, total if rank == size - 1 else rank + 1)

    output = full(0, 2)
    both(dist.reduce_scatter, output, [full(rank + r, 2) for r in range(size)],
         check=lambda: expect(output, sum(range(size)) + size * rank))  # fmt: skip
    both(dist.reduce_scatter_tensor, output, torch.arange(2.0 * size),
         check=lambda: expect(output, [size * 2 * rank, size * (2 * rank + 1)]))  # fmt: skip

    sparse = torch.sparse_coo_tensor([[rank, size]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(sparse)
    expect(sparse.to_dense(), [1.0] * size + [2.0 * size])


def moves(rank, size):
    for root in range(size):
        tensor = full(rank)
        dist.broadcast(tensor, src=root)
        expect(tensor, root)
    for dtype in (torch.bool, torch.complex64, torch.uint16, torch.float8_e5m2):
        tensor = torch.ones(3).to(dtype) if rank == 0 else torch.zeros(3).to(dtype)
        dist.broadcast(tensor.view(torch.uint8) if dtype == torch.float8_e5m2 else tensor, src=0)
        assert tensor.to(torch.float32).tolist() == [1, 1, 1], tensor

    parts = [full(-1) for _ in range(size)]
    both(dist.all_gather, parts, full(rank), check=lambda: [expect(part, r) for r, part in enumerate(parts)])
    parts = list(full(-1, 3 * size).chunk(size))  # they lie side by side
    both(dist.all_gather, parts, full(rank, 3), check=lambda: [expect(part, r) for r, part in enumerate(parts)])
    dist.all_gather(parts, parts[(rank + 1) % size])
    for r, part in enumerate(parts):
        expect(part, (r + 1) % size)
    uneven = [full(-1, r + 1) for r in range(size)]
    dist.all_gather(uneven, full(rank, rank + 1))
    for r, part in enumerate(uneven):
        expect(part, r)
    whole = full(-1, 2 * size)
    both(dist.all_gather_into_tensor, whole, full(rank, 2),
         check=lambda: expect(whole, [r for r in range(size) for _ in range(2)]))  # fmt: skip

    parts = [full(-1) for _ in range(size)] if rank == 0 else None
    dist.gather(full(rank), parts, dst=0)
    for r, part in enumerate(parts or []):
        expect(part, r)
    output = full(-1)
    dist.scatter(output, [full(10 * r) for r in range(size)] if rank == size - 1 else None, src=size - 1)
    expect(output, 10 * rank)

    outputs = [full(-1, 2) for _ in range(size)]
    both(dist.all_to_all, outputs, [full(10 * rank + r, 2) for r in range(size)],
         check=lambda: [expect(output, 10 * r + rank) for r, output in enumerate(outputs)])  # fmt: skip
    output = full(-1, size, 2)
    both(dist.all_to_all_single, output, torch.arange(2.0 * size).reshape(size, 2),
         check=lambda: expect(output, [[2 * rank, 2 * rank + 1]] * size))  # fmt: skip
    splits = [r + 1 for r in range(size)]
    output = full(-1, (rank + 1) * size, 2)
    dist.all_to_all_single(output, full(rank, sum(splits), 2), [rank + 1] * size, splits)
    expect(output[:, 0], [r for r in range(size) for _ in range(rank + 1)])


def objects(rank, size):
    every = [None] * size
    dist.all_gather_object(every, {"rank": rank, "text": "x" * rank})
    assert every == [{"rank": r, "text": "x" * r} for r in range(size)]
    some = [rank, "text", None] if rank == 0 else [None] * 3
    dist.broadcast_object_list(some, src=0)
    assert some == [0, "text", None]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered, dst=0)
    assert gathered in (None, list(range(size)))
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert mine == [f"for {rank}"]
    if hasattr(dist, "send_object_list"):
        if rank == 0:
            dist.send_object_list([1, "two"], dst=1)
        elif rank == 1:
            got = [None, None]
            dist.recv_object_list(got, src=0)
            assert got == [1, "two"]
    dist.barrier()
    dist.barrier(async_op=True).wait()
    monitored = dist.monitored_barrier if torch.__version__ >= "2.14" else dist.group.WORLD.monitored_barrier
    monitored(timeout=timedelta(seconds=60))


def coalesced(rank, size):
    total = sum(range(1, size + 1))
    tensors = [full(rank + 1, 2), full(2 * (rank + 1), 3)]
    dist.all_reduce_coalesced(tensors)
    expect(tensors[0], total)
    expect(tensors[1], 2 * total)
    from torch.distributed.distributed_c10d import _coalescing_manager

    tensors = [full(rank + 1), full(rank + 1, 4)]
    with _coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        expect(tensor, total)
    whole, wide = full(-1, size), full(-1, 2 * size)
    with _coalescing_manager(async_ops=True) as manager:
        dist.all_gather_into_tensor(whole, full(rank, 1))
        dist.all_gather_into_tensor(wide, full(rank, 2))
    manager.wait()
    expect(whole, list(range(size)))
    one, two = full(-1, 1), full(-1, 2)
    with _coalescing_manager():
        dist.reduce_scatter_tensor(one, torch.arange(float(size)))
        dist.reduce_scatter_tensor(two, torch.arange(2.0 * size))
    expect(one, size * rank)
    parts = [[full(-1, 2), full(-1, 3)] for _ in range(size)]
    dist.all_gather_coalesced(parts, [full(rank, 2), full(rank + 10, 3)])
    for r, (first, second) in enumerate(parts):
        expect(first, r)
        expect(second, r + 10)


def messages(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    tensor = full(-1, 100_000)
    ops = [dist.P2POp(dist.isend, full(rank, 100_000), after), dist.P2POp(dist.irecv, tensor, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    expect(tensor, before)
    sends = [dist.isend(full(tag), after, tag=tag) for tag in (1, 2)]
    for tag in (2, 1):
        tensor = full(-1)
        assert dist.recv(tensor, before, tag=tag) == before
        expect(tensor, tag)
    for work in sends:
        work.wait()
    if rank == 0:
        seen = set()
        pending = [(full(-1), None) for _ in range(size - 1)]
        works = [dist.irecv(tensor, tag=7) for tensor, _ in pending]
        for (tensor, _), work in zip(pending, works):
            work.wait()
            assert tensor[0] == work._source_rank()
            seen.add(work._source_rank())
        assert seen == set(range(1, size)), seen
        for _ in range(1, size):
            tensor = full(-1, 100_000)
            source = dist.recv(tensor, tag=8)
            expect(tensor, source)
    else:
        dist.send(full(rank), 0, tag=7)
        dist.send(full(rank, 100_000), 0, tag=8)


def groups(rank, size):
    evens = dist.new_group(list(range(0, size, 2)))
    if rank % 2 == 0:
        tensor = full(rank)
        dist.all_reduce(tensor, group=evens)
        expect(tensor, sum(range(0, size, 2)))
        assert dist.get_backend(evens) == "ddp" and dist.get_rank(evens) == rank // 2
    tensor = full(1)
    dist.all_reduce(tensor)
    own = dist.new_group([rank], use_local_synchronization=True, backend="ddp")
    dist.all_reduce(tensor, group=own)
    expect(tensor, size)
    mesh = dist.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    tensor = full(rank)
    dist.all_reduce(tensor, group=mesh.get_group("tp"))
    expect(tensor, 4 * (rank // 2) + 1)
    if torch.__version__ >= "2.15":
        half = dist.split_group(split_ranks=[list(range(size // 2)), list(range(size // 2, size))])
        tensor = full(1)
        dist.all_reduce(tensor, group=half)
        expect(tensor, size // 2)
    dist.destroy_process_group(evens)


def functional(rank, size):
    import torch.distributed._functional_collectives as funcol

    total = sum(range(1, size + 1))
    group = dist.group.WORLD
    expect(funcol.all_reduce(full(rank + 1), "sum", group), total)
    expect(funcol.all_gather_tensor(full(rank, 2), 0, group), [r for r in range(size) for _ in range(2)])
    expect(funcol.reduce_scatter_tensor(torch.arange(float(size)), "sum", 0, group), size * rank)
    expect(funcol.all_to_all_single(torch.arange(float(size)), None, None, group), rank)
    expect(funcol.broadcast(full(rank), 1, group), 1)
    first, second = funcol.all_reduce_coalesced([full(1), full(2)], "sum", group)
    expect(first + second, 3 * size)


def training(rank, size):
    from torch.nn.parallel import DistributedDataParallel

    def steps(model, hook=None):
        if hook is not None:
            model.register_comm_hook(*hook)
        for step in range(3):
            model.zero_grad()
            torch.manual_seed(10 * step + rank)
            model(torch.randn(4, 20)).square().sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad
        every = [None] * size
        dist.all_gather_object(every, [p.detach().clone() for p in model.parameters()])
        for theirs in every:
            assert all(torch.equal(a, b) for a, b in zip(theirs, every[0]))

    def model():
        torch.manual_seed(rank)  # DDP sends rank 0's
        layers = [torch.nn.Linear(20, 50), torch.nn.BatchNorm1d(50), torch.nn.ReLU(), torch.nn.Linear(50, 2)]
        return DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.001)

    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    steps(model())
    steps(model(), (None, default_hooks.allreduce_hook))
    steps(model(), (None, default_hooks.bf16_compress_hook))
    steps(model(), (powerSGD_hook.PowerSGDState(dist.group.WORLD, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook))
    embedding = DistributedDataParallel(torch.nn.Embedding(30, 4, sparse=True))
    embedding(torch.tensor([rank, rank + 1])).sum().backward()
    assert embedding.module.weight.grad.to_dense().sum() == 8


def operations():
    """All calls."""
    for _ in range(2):  # destroyed, and made again
        dist.init_process_group("ddp")
        rank, size = dist.get_rank(), dist.get_world_size()
        assert dist.get_backend() == "ddp"
        for part in (reductions, moves, objects, coalesced, messages, groups, functional, training):
            if WANTED and part.__name__ not in WANTED:
                continue
            part(rank, size)
            dist.barrier()
        dist.destroy_process_group()


def stacks(folder):
    """FSDP2, DTensor, a distributed checkpoint, pipelining, ZeRO and torch.compile on the backend."""
    import torch.distributed._functional_collectives as funcol
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    dist.init_process_group("cpu:ddp")
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (size,))

    whole = torch.arange(8.0 * size).reshape(2 * size, 4)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    expect(rows.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    expect((rows @ rows.T).redistribute(mesh, [Replicate()]).to_local(), whole @ whole.T)

    def model():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

    def train(trained, optimizer):
        for step in range(3):
            torch.manual_seed(step)
            trained(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    alone = model()
    train(alone, torch.optim.Adam(alone.parameters(), foreach=False))
    sharded = fully_shard(model(), mesh=mesh)
    train(sharded, torch.optim.Adam(sharded.parameters(), foreach=False))
    for mine, theirs in zip(alone.parameters(), sharded.parameters()):
        torch.testing.assert_close(mine.detach(), theirs.full_tensor().detach())
    zero = torch.nn.parallel.DistributedDataParallel(model())
    train(zero, ZeroRedundancyOptimizer(zero.parameters(), torch.optim.Adam, foreach=False))
    for mine, theirs in zip(alone.parameters(), zero.parameters()):
        torch.testing.assert_close(mine, theirs)

    dcp.async_save({"rows": rows}, checkpoint_id=folder).result()
    loaded = {"rows": distribute_tensor(torch.zeros_like(whole), mesh, [Shard(0)])}
    dcp.load(loaded, checkpoint_id=folder)
    expect(loaded["rows"].full_tensor(), whole)

    layer = torch.nn.Linear(16, 16)
    with torch.no_grad():
        layer.weight.copy_(2 * torch.eye(16))
        layer.bias.zero_()
    schedule = ScheduleGPipe(PipelineStage(layer, rank, size, torch.device("cpu")), 4)
    batch = torch.ones(8, 16)
    output = schedule.step(*([batch] if rank == 0 else []))
    if rank == size - 1:
        expect(output.detach(), 2.0**size)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def compiled(tensor):
        return funcol.all_reduce(tensor * 2, "sum", dist.group.WORLD) + 1

    expect(compiled(full(1)), 2 * size + 1)
    dist.destroy_process_group()


def lost():
    """A rank dies while the others wait for it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # both print
    dist.init_process_group("ddp")
    rank = dist.get_rank()
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(full(1), async_op=True)
    error = fails(ddp.ErrorKind.peer_lost, "rank 1", work.wait)
    assert error.lost_ranks == (1,), error
    assert work.exception() is not None and not work.is_success()
    try:
        work.get_future().wait()
    except RuntimeError as error:
        assert "\n" not in str(error), error  # the lines that it came from
        print(f"rank {rank}: {error}", flush=True)


def mismatch():
    """Ranks of a group of 1 to 3 make different calls. Messages name them by their ranks in the job."""
    dist.init_process_group("ddp")
    rank = dist.get_rank()
    group = dist.new_group([1, 2, 3])
    if rank == 0:
        return
    call = dist.barrier if rank == 1 else lambda group: dist.all_reduce(full(1), group=group)
    print(f"rank {rank}: {fails(ddp.ErrorKind.mismatch, 'all_reduce', call, group)}", flush=True)


def late():
    """A rank does not make the call."""
    dist.init_process_group("ddp", timeout=timedelta(seconds=2))
    rank = dist.get_rank()
    if rank == 1:
        dist.distributed_c10d._get_default_store().wait(["seen"], timedelta(seconds=100))
    else:
        print(f"rank {rank}: {fails(ddp.ErrorKind.timed_out, 'rank 1', dist.all_reduce, full(1))}", flush=True)
        dist.distributed_c10d._get_default_store().set("seen", "yes")


def absent():
    """A rank does not come to a monitored_barrier(). The group is as it was."""
    dist.init_process_group("ddp")
    rank, group = dist.get_rank(), dist.group.WORLD
    store = dist.distributed_c10d._get_default_store()
    limit = timedelta(seconds=2)
    group.monitored_barrier(timedelta(seconds=100))
    if rank == 1:
        store.wait(["seen"], timedelta(seconds=100))
        fails(ddp.ErrorKind.timed_out, "received errors", group.monitored_barrier, limit)  # too late
    else:
        print(f"rank {rank}: {fails(ddp.ErrorKind.timed_out, 'monitoredBarrier', group.monitored_barrier, limit)}", flush=True)
        if rank == 0:
            store.set("seen", "yes")
    if rank != 1:
        store.wait(["late"], timedelta(seconds=100))
    store.set("late", "yes")
    group.monitored_barrier(timedelta(seconds=100))
    tensor = full(1)
    dist.all_reduce(tensor)
    expect(tensor, dist.get_world_size())
    dist.destroy_process_group()


def beside():
    """Groups of ddp and gloo in one job."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(backend="ddp")
    assert dist.get_backend(group) == "ddp" and dist.get_backend() == "gloo"
    tensor = full(1)
    dist.all_reduce(tensor, group=group)
    dist.all_reduce(tensor)
    expect(tensor, size * size)
    dist.destroy_process_group()


def devices(config):
    """A group with a backend for another device."""
    dist.init_process_group(config)
    size, group = dist.get_world_size(), dist.group.WORLD
    assert {device.type for device in group._device_types} == {"cpu", "cuda"}
    gloo = group._get_backend(torch.device("cuda"))
    assert gloo.name() == "gloo"
    alone = dist.new_group(backend="ddp")
    fails(ddp.ErrorKind.usage, "is on meta", alone.allreduce, full(1).to("meta"))
    # Without a GPU, the way of its tensors can be seen with tensors on the CPU.
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    for is_own in (True, False):
        group._is_own = lambda tensor, is_own=is_own: is_own
        tensor, parts, whole = full(1), [full(0) for _ in range(size)], full(0, 3 * size)
        dist.all_reduce(tensor)
        expect(tensor, size)
        dist.all_gather(parts, tensor)
        expect(parts[-1], size)
        dist.all_gather_into_tensor(whole, tensor)
        expect(whole, size)
    dist.barrier()
    dist.destroy_process_group()
    # Gloo is registered twice, so its thread stays. While Python ends, the thread may let go of a tensor, which ends the
    # process by std::terminate() in PyTorch.
    os._exit(0)


def aborted():
    """A group is aborted while a call waits."""
    dist.init_process_group("ddp")
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 0:
        work = dist.all_reduce(full(1), async_op=True)
        dist.group.WORLD.abort()
        print(f"rank 0: {fails(ddp.ErrorKind.system, 'aborted', work.wait)}", flush=True)
        store.set("has_aborted", "")
    store.wait(["has_aborted"])  # the other rank does not leave before


WANTED = sys.argv[2:]
if __name__ == "__main__":
    globals()[sys.argv[1]](*(WANTED if sys.argv[1] in ("stacks", "devices") else ()))
