# SPDX-License-Identifier: Apache-2.0
"""The workers of launcher_behaviours.py: launcher_worker.py ACTION ARGUMENTS. What they find is in FOLDER/RANK."""
import os
import sys
import time

rank = int(os.environ["RANK"])
action, arguments = sys.argv[1], sys.argv[2:]


def write(text):
    with open(os.path.join(arguments[0], str(rank)), "w", encoding="utf8") as file:
        file.write(text)


def touch():
    write("")


def leave():
    """At the end of the interpreter PyTorch 2.15 now and then destroys a thread of its own that still runs ("terminate
    called without an active exception"), under torchrun, too."""
    sys.stdout.flush()
    os._exit(0)


def write_variables():
    write(" ".join(os.environ.get(name, "-") for name in arguments[1:]))


def fail():
    raise RuntimeError("sad because i throw")


def fail_odd():  # the others would write something much later
    if rank % 2:
        fail()
    time.sleep(600)
    touch()


def die_once():
    if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), 9)
    write(os.environ["TORCHELASTIC_RESTART_COUNT"])


def sleep():  # FOLDER SECONDS
    time.sleep(float(arguments[1]))
    touch()


def is_torchelastic():
    import torch.distributed

    write(str(torch.distributed.is_torchelastic_launched()))


def recorded():
    from torch.distributed.elastic.multiprocessing.errors import record

    record(fail)()


def all_reduce():  # FOLDER INIT_METHOD [FILE]: with FILE, each waits until it is there
    import torch
    import torch.distributed as dist

    size = int(os.environ["WORLD_SIZE"])
    if arguments[1] == "env://":
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", init_method=arguments[1], rank=rank, world_size=size)
    value = torch.tensor(rank)
    if len(arguments) > 2:
        open(f"{arguments[0]}/begun-{rank}", "w").close()
        while not os.path.exists(arguments[2]):
            time.sleep(0.02)
    dist.all_reduce(value)
    write(f"{value.item()} of {size}")
    print(f"sum {value.item()}")
    dist.destroy_process_group()
    leave()


def rpc():  # FOLDER master MESSAGE, or FOLDER worker
    import torch.distributed.rpc as rpc

    name = arguments[1]
    rpc.init_rpc(name, rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    if name == "master":
        write(rpc.rpc_sync("worker", str.upper, args=(arguments[2],)))
    rpc.shutdown()
    leave()


globals()[action]()
