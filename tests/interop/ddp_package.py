# SPDX-License-Identifier: Apache-2.0
"""The package ddp from Python: ddp_package.py WHAT, one rank. Exits 1 at the first value that is not as expected."""
import array
import asyncio
import gc
import os
import signal
import sys
import threading
import time

import ddp


def fails(kind, words, call, *arguments):
    try:
        call(*arguments)
    except ddp.Error as error:
        assert error.kind == kind and words in str(error), error
        return error
    raise AssertionError(f"no error: {call} {arguments}")


def operations(group):
    import numpy

    rank, size = group.rank, group.size
    total = size * (size + 1) / 2
    own = numpy.full(3, rank + 1, "float32")
    out = numpy.zeros(3, "float32")
    group.all_reduce(own, out)
    assert (out == total).all() and (own == rank + 1).all()
    group.all_reduce(own, op=ddp.ReduceOp.max)
    assert (own == size).all()
    own[:] = rank + 1
    group.reduce(own, out, root=size - 1, op=ddp.ReduceOp.product)
    group.reduce(own, root=0)
    assert own[0] == (total if rank == 0 else rank + 1)
    assert group.all_reduce(rank + 1) == total and group.all_reduce(0.5) == size / 2
    own[:] = rank
    group.broadcast(own, root=size - 1)
    assert (own == size - 1).all()

    own, every = numpy.array([rank], "int64"), numpy.full(size, -1, "int64")
    group.all_gather(own, every)
    assert every.tolist() == list(range(size))
    group.all_to_all(every, every)
    assert every.tolist() == [rank] * size
    group.gather(own, every if rank == 0 else None)
    assert rank != 0 or every.tolist() == list(range(size))
    group.scatter(every if rank == 0 else None, own)
    assert own[0] == rank
    every[:] = range(size)
    group.reduce_scatter(every, own)
    assert own[0] == rank * size

    counts = [r + 1 for r in range(size)]
    own, every = numpy.full(rank + 1, rank, "int16"), numpy.zeros(sum(counts), "int16")
    blocks = numpy.repeat(numpy.arange(size, dtype="int16"), counts)
    group.all_gather_v(own, every, counts)
    assert (every == blocks).all()
    every[:] = 0
    group.gather_v(own, every if rank == 0 else None, counts if rank == 0 else None)
    assert rank != 0 or (every == blocks).all()
    own[:] = -1
    group.scatter_v(every, counts, own) if rank == 0 else group.scatter_v(None, None, own)
    assert (own == rank).all()
    group.reduce_scatter_v(blocks, own, counts)
    assert (own == rank * size).all()
    group.all_to_all_v(numpy.full(size * (rank + 1), rank, "int16"), [rank + 1] * size, every, counts)
    assert (every == blocks).all()
    group.barrier()

    if size > 1:
        following, previous = (rank + 1) % size, (rank - 1) % size
        out, into = numpy.array([rank]), numpy.array([-1])
        group.batch_send_recv([ddp.P2POp.send(out, following, 1), ddp.P2POp.recv(into, previous, 1)])
        assert into[0] == previous
        group.send(out, following, 1)
        assert group.probe(1) == previous
        group.recv(into, previous, 1)
        sent = group.isend(out, following, 2)
        into[0] = -1
        group.recv(into, previous, 2)
        sent.wait()
        assert into[0] == previous


def begun(group):
    import numpy

    rank, size = group.rank, group.size
    own, every, block = numpy.ones(size), numpy.zeros(size), numpy.zeros(1)
    ones, counts = numpy.ones(1), [1] * size
    works = [
        group.ibarrier(), group.iall_reduce(own), group.ibroadcast(block), group.ireduce(block),
        group.iall_gather(ones, every), group.iall_gather_v(ones, every, counts), group.iall_to_all(every, every),
        group.iall_to_all_v(every, counts, numpy.zeros(size), counts), group.igather(ones, every, 0),
        group.igather_v(ones, every, counts, 0), group.iscatter(every, block), group.iscatter_v(every, counts, block),
        group.ireduce_scatter(every, block), group.ireduce_scatter_v(every, block, counts),
    ]  # fmt: skip
    for work in works:
        work.wait()
        assert work.is_completed() and work.error() is None
    assert (own == size).all()
    assert size == 1 or works[1].duration() > 0
    # A Work that is dropped keeps its buffers.
    for _ in range(20):
        del works
        works = [group.iall_reduce(numpy.ones(10000))]
    works[0].wait()
    del works
    gc.collect()

    async def steps():
        data = numpy.full(4, rank + 1.0)
        await group.iall_reduce(data)
        assert (data == size * (size + 1) / 2).all()
        if size > 1 and rank == 0:
            waiting = asyncio.ensure_future(wrapped(group.irecv(data, 1)))
            await asyncio.sleep(0)
            assert not waiting.done()
            await group.isend(data, 1)
            await waiting
            assert (data == 7).all()
        if size > 1 and rank == 1:
            await group.irecv(data, 0)
            data[:] = 7
            await group.isend(data, 0)

    async def wrapped(work):
        await work

    asyncio.run(steps())


def gil(group):
    """Another thread runs while a call waits."""
    if group.size == 1:
        return
    if group.rank == 0:
        # After a pause, so that recv nearly always waits when the thread sends.
        thread = threading.Thread(target=lambda: (time.sleep(0.01), group_of_thread.send(b"x", 1)))
        thread.start()
        group.recv(bytearray(1), 1)  # which rank 1 sends when it has heard of the thread
        thread.join()
    elif group.rank == 1:
        group_of_thread.recv(bytearray(1), 0)
        group.send(b"y", 0)


def libraries(group):
    import jax.numpy
    import ml_dtypes
    import numpy
    import torch

    rank, size = group.rank, group.size
    tensor = torch.full((2, 3), rank + 1.0)
    group.all_reduce(tensor)
    assert (tensor == size * (size + 1) / 2).all()
    half = torch.ones(4, dtype=torch.bfloat16)
    group.all_reduce(half)
    assert (half == size).all() and half.dtype == torch.bfloat16
    group.all_reduce(flags := torch.tensor([rank == 0]), op=ddp.ReduceOp.max)
    assert flags.item() is True
    own, out = jax.numpy.ones(3), numpy.zeros(3, "float32")
    group.all_reduce(own, out)
    assert (jax.numpy.asarray(out) == size).all()
    bits = numpy.zeros(3, "uint16")
    group.all_reduce(jax.numpy.ones(3, "bfloat16"), ddp.view(bits, ddp.DataType.bfloat16))
    assert (bits.view(ml_dtypes.bfloat16) == size).all()
    for read_only in (own, jax.numpy.ones(3, "bfloat16"), numpy.broadcast_to(numpy.ones(1), (3,)), b"abc"):
        try:
            group.all_reduce(read_only)
        except (BufferError, ddp.Error):
            continue
        raise AssertionError(f"{read_only!r} was written")
    numbers = array.array("h", [rank + 1])
    group.all_reduce(memoryview(numbers))
    assert numbers[0] == size * (size + 1) // 2
    group.all_reduce(wave := numpy.array([1 + 2j]))
    assert wave[0] == size * (1 + 2j)
    memory = numpy.frombuffer(group.allocate(4096), "float32")
    memory[:] = 1
    group.all_reduce(memory)
    assert (memory == size).all()
    for wrong in ("text", {}, [numpy.zeros(2)], numpy.zeros(2, object), numpy.zeros(2, ">f4"), numpy.zeros(2, "i4,f4")):
        try:
            group.all_reduce(wrong)
        except TypeError as error:
            assert "DLPack" in str(error) or isinstance(wrong, numpy.ndarray), error
            continue
        raise AssertionError(f"{wrong!r} was taken")
    for strided in (numpy.zeros((4, 4))[:, 1], torch.zeros(4, 4)[:, 1]):
        fails(ddp.ErrorKind.usage, "not contiguous", group.all_reduce, strided)
    fails(ddp.ErrorKind.usage, "counts", group.all_gather_v, bits, bits, [1] * (size + 1))
    error = fails(ddp.ErrorKind.usage, "ranks are", group.broadcast, bits, size)
    assert error.rank == rank and error.lost_ranks == ()


def others(group, folder):
    import numpy

    rank, size = group.rank, group.size
    assert group.broadcast_object({"a": rank}) == {"a": 0}
    assert group.all_gather_object("x" * rank) == ["x" * r for r in range(size)]
    assert group.gather_object(rank, root=size - 1) == (list(range(size)) if rank == size - 1 else [])
    mesh = ddp.mesh({"dp": 1, "tp": size}, group)
    assert mesh.group("tp").size == size and mesh.group("dp").size == 1 and mesh.dimensions["tp"] == size
    fails(ddp.ErrorKind.usage, "no dimension", mesh.group, "pp")
    fails(ddp.ErrorKind.usage, "product of the sizes", ddp.mesh, {"dp": size + 1}, group)
    half = group.split(rank % 2)
    assert half.size == (size + 1 - rank % 2) // 2 and group.split(-1) is None
    assert (group.new_group([0]) is not None) == (rank == 0)
    node = group.split_by_node()
    node.set_timeout(2.5)
    assert node.timeout == 2.5 and node.backend == "cpu"
    if size > 1 and rank < size - 1:
        assert node.shrink([size - 1]).size == size - 1
    group.barrier()

    sampler = ddp.DistributedSampler(100, size, rank, seed=3)
    sampler.set_epoch(2)
    seen = sum(group.all_gather_object(list(sampler)), [])
    assert set(seen) == set(range(100)) and len(seen) == 100 + group.all_reduce(sampler.padding)
    state = [numpy.full(5, rank, "float32"), numpy.array([rank])]
    checkpoint = ddp.Checkpoint(os.path.join(folder, "checkpoint"))
    assert checkpoint.load(group, state) is None
    checkpoint.save(group, 3, state)
    checkpoint.isave(group, 4, state).wait()
    assert checkpoint.load(group, state) == 4 and state[1][0] == 0

    server = ddp.TcpStore("127.0.0.1", 0, is_master=True)
    client = ddp.PrefixStore("in", ddp.TcpStore("127.0.0.1", server.port))
    client.multi_set(["a", "b"], ["1", b"2"])
    assert server.multi_get(["in/a", "in/b"]) == [b"1", b"2"]
    client.append("a", "0")
    assert client.add("a", 5) == 15 and client.compare_set("b", "2", "3") == b"3"
    assert client.delete_key("a") and not client.check(["a"]) and client.check(["b"])
    client.set_timeout(0.5)
    assert client.timeout == 0.5 and client.underlying.num_keys() >= 1 and "127.0.0.1" in client.name
    fails(ddp.ErrorKind.timed_out, "c", client.wait, ["c"], 0)
    ddp.FileStore(os.path.join(folder, "store")).set("k", "v")
    ddp.write_trace(os.path.join(folder, f"trace_{rank}"))
    fails(ddp.ErrorKind.system, "/no/such", ddp.write_trace, "/no/such/folder")
    ddp.heartbeat(1)
    node.close()
    fails(ddp.ErrorKind.usage, "ProcessGroup is closed", node.barrier)
    fails(ddp.ErrorKind.usage, "ProcessGroup is closed", lambda: node.size)


def mismatch(group):
    error = fails(ddp.ErrorKind.mismatch, "rank 1 is at #1 barrier",
                  *([group.barrier] if group.rank == 1 else [group.all_reduce, bytearray(4)]))  # fmt: skip
    print(f"rank {error.rank}: {error.kind.name}", flush=True)


def lost(group):
    signal.signal(signal.SIGTERM, lambda *_: None)
    group.barrier()
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    async def wait():
        await group.ibarrier()

    error = fails(ddp.ErrorKind.peer_lost, "rank 1", asyncio.run, wait())
    fails(ddp.ErrorKind.peer_lost, "rank 1", group.barrier)
    print(f"rank {error.rank}: {error.kind.name} {error.lost_ranks}", flush=True)


def spawned(rank, what):
    group = ddp.init_process_group()
    assert group.rank == rank == int(os.environ["LOCAL_RANK"])
    assert group.all_gather_object(rank) == [0, 1, 2]
    if what == "raise" and rank == 1:
        raise ValueError("bad luck")
    if what == "kill" and rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    group.barrier()


def spawn():
    ddp.spawn(spawned, 3, ("work",))
    fails(ddp.ErrorKind.peer_lost, "ValueError: bad luck", ddp.spawn, spawned, 3, ("raise",))
    fails(ddp.ErrorKind.peer_lost, "rank 2 was killed by SIGKILL", ddp.spawn, spawned, 3, ("kill",))
    fails(ddp.ErrorKind.usage, "nprocs", ddp.spawn, spawned, 0)


@ddp.record
def main():
    what = sys.argv[1]
    if what == "spawn":
        return spawn()
    with ddp.init_process_group(timeout=100) as group:
        if what == "raise" and group.rank == 1:
            raise ValueError("bad luck")
        if what == "raise":
            return group.barrier()
        if what in ("libraries", "mismatch", "lost"):
            return globals()[what](group)
        global group_of_thread
        group_of_thread = group.new_group(range(group.size))
        operations(group)
        begun(group)
        gil(group)
        others(group, sys.argv[2])


if __name__ == "__main__":
    main()
