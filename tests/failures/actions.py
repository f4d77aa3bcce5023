# SPDX-License-Identifier: Apache-2.0
"""What the guilty rank does, for both programs: worker.py and ddp_worker.py."""
import ctypes
import os
import resource
import signal
import sys
import time


def be_ready(rank, ranks=4):
    """Says who and where it is, and waits until all do."""
    folder = os.environ['FAILURES_FOLDER']
    path = os.path.join(folder, f'rank-{rank}')
    with open(path + '.new', 'w', encoding='ascii') as file:
        file.write(str(os.getpid()))
    os.rename(path + '.new', path)
    while not all(os.path.exists(os.path.join(folder, f'rank-{each}')) for each in range(ranks)):
        time.sleep(0.02)


def leave():
    sys.exit(3)


def crash():
    ctypes.string_at(1)


def fill_memory():
    everything = []
    while len(everything) < 96:  # 1.5 GiB, should there be no limit
        everything.append(bytearray(b'x') * (16 << 20))


def raise_exception():
    raise ValueError('loss is nan at step 17')


def fill_disk():
    with open(os.path.join(os.environ['FAILURES_DISK'], 'checkpoint'), 'wb') as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()


def open_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
    files = []
    while True:
        files.append(open('/dev/null', encoding='ascii'))


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def miss_library():
    os.execl(os.environ['FAILURES_PROGRAM'], 'program')


def be_throttled():
    with open(os.environ['FAILURES_CGROUP'], 'w', encoding='ascii') as file:
        file.write(str(os.getpid()))


ACTIONS = {'exit': leave, 'crash': crash, 'memory': fill_memory, 'exception': raise_exception, 'disk': fill_disk,
           'files': open_files, 'stop': stop, 'library': miss_library, 'slow': be_throttled}
