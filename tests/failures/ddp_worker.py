# SPDX-License-Identifier: Apache-2.0
"""A rank of four that trains with PyTorch's DistributedDataParallel over gloo or FAILURES_BACKEND. The guilty one does
what the argument says in the fourth step, while the others wait for it in backward()."""
import ctypes
import datetime
import os
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from actions import ACTIONS, be_ready
from torch.nn.parallel import DistributedDataParallel

# The names that each launcher gives them.
for name, other in (('RANK', 'OMPI_COMM_WORLD_RANK'), ('WORLD_SIZE', 'OMPI_COMM_WORLD_SIZE')):
    if name not in os.environ:
        os.environ[name] = os.environ[other]
os.environ.setdefault('MASTER_ADDR', '127.0.0.1')
os.environ.setdefault('MASTER_PORT', '29511')
action = sys.argv[1]
rank = int(os.environ['RANK'])
guilty = rank == int(os.environ['FAILURES_RANK'])
folder = os.environ['FAILURES_FOLDER']
goes_on = action in ('wait', 'slow', 'late')  # until the launcher has said what it has to say
STEPS = 1 << 30 if goes_on else 50


class Samples(torch.utils.data.Dataset):
    """In a process of its own; the guilty one's is killed, as for want of memory."""

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        if guilty and action == 'loader_killed' and index == 3:
            os.read(received[0], 1)  # a batch that is killed on its way fails by its connection
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(4)


def load_batch():
    time.sleep(600)


def open_pipe():
    os.mkfifo(f'{folder}/pipe')
    open(f'{folder}/pipe', 'rb').close()  # nobody writes


def lock_both():
    first, second, met = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def other():
        with second:
            met.wait()
            first.acquire()

    threading.Thread(target=other, daemon=True).start()
    with first:
        met.wait()
        second.acquire()


def find_next():
    while True:
        pass


def read_message():
    dist.recv(torch.zeros(1), src=0)  # rank 0 sends none


def hook(gradient):
    time.sleep(600)


def run_child():
    subprocess.run(['sleep', '600'], check=True)


def ask_user():
    input('continue? ')


def check_loss():
    raise FloatingPointError('loss is nan at step 3')


def fill_memory_file():
    with open(os.path.join(os.environ['FAILURES_SHM'], 'samples'), 'wb') as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()


def save():
    torch.save({'weights': torch.ones(1 << 22)}, os.path.join(os.environ['FAILURES_DISK'], 'checkpoint.pt'))


def use_gpu():
    torch.ones(1, device='cuda')


def stop_early(leaves_group):
    if leaves_group:
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0) if not leaves_group else sys.exit(0)


ACTIONS = {**ACTIONS, 'hang': load_batch, 'desync': dist.barrier, 'early': lambda: stop_early(False),
           'early_left': lambda: stop_early(True), 'open': open_pipe, 'locks': lock_both, 'loop': find_next,
           'receive': read_message, 'child': run_child, 'input': ask_user, 'nan': check_loss,
           'shm': fill_memory_file, 'save': save, 'gpu': use_gpu, 'abort': lambda: ctypes.CDLL(None).abort(),
           'extra': lambda: dist.all_reduce(torch.ones(2)),
           'hook': lambda: model.module.weight.register_hook(hook)}
# Longer than a worker has to stand still until that tells anything. A rank that waits for a message waits longer than
# the others: they time out first.
dist.init_process_group(os.environ.get('FAILURES_BACKEND', 'gloo'),
                        timeout=datetime.timedelta(seconds=600 if guilty and action == 'receive' else 20))
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(4, 5 if guilty and action == 'shapes' else 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train_step(batch=torch.ones(1, 4)):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()


be_ready(rank, dist.get_world_size())
workers = 1 if action == 'loader_killed' else 0
received = os.pipe()
for step, batch in enumerate(torch.utils.data.DataLoader(Samples(), num_workers=workers)):
    if step == 2:
        os.write(received[1], b'.')
    if step == 3 and guilty and action in ACTIONS:
        ACTIONS[action]()
    if step == 3 and action == 'sizes':
        dist.all_reduce(torch.ones(8 if guilty else 4))
    if goes_on:
        time.sleep(0.5 if guilty and action == 'late' else 0.1)
    train_step(batch)
dist.barrier()
dist.destroy_process_group()
