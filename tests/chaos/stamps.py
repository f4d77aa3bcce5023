# SPDX-License-Identifier: Apache-2.0
"""The stamps that workers keep in files; worker.cc has the same layout."""
import mmap
import os
import re
import struct
from dataclasses import dataclass

NUMBERS = struct.Struct('=9q')
COMMAND_AT = 8 * 8
PATH_SIZE = 256
IGNORE_TERM, LEAVE_CHILD, EXIT = 1, 2, 1000


@dataclass
class Stamp:
    life: str
    pid: int
    start: int
    last: int
    rank: int
    out_lines: int
    err_lines: int
    exit_code: int
    exit_time: int
    user_signals: int
    round: int


def _round_of(error_file):
    """The fallback for a worker whose agent was killed before it wrote the event."""
    found = re.search(r'(?:error|attempt)_(\d+)', error_file)
    return int(found[1]) if found else None


def read(folder, rounds, clock_offsets):
    """All stamps. `rounds` are those of the events, by life and pid; times are of this process's clock."""
    stamps = []
    for name in sorted(os.listdir(folder)):
        life, pid = name.split('.')
        with open(os.path.join(folder, name), 'rb') as file:
            data = file.read()
        if len(data) < NUMBERS.size + PATH_SIZE:
            continue  # killed before it had begun
        start, last, rank, out, err, code, ended, signals, _ = NUMBERS.unpack_from(data)
        if start == 0:
            continue
        path = data[NUMBERS.size:NUMBERS.size + PATH_SIZE].split(b'\0')[0].decode()
        shift = clock_offsets[life] * 1_000_000_000
        round_number = rounds.get((life, int(pid)), _round_of(path))
        stamps.append(Stamp(life, int(pid), start - shift, last - shift, rank, out, err, code, ended - shift,
                            signals, round_number))
    return stamps


def command(folder, life, pid, number):
    """False: the worker has no stamp yet."""
    path = os.path.join(folder, f'{life}.{pid}')
    try:
        with open(path, 'r+b') as file, mmap.mmap(file.fileno(), NUMBERS.size) as memory:
            struct.pack_into('=q', memory, COMMAND_AT, number)
            return True
    except (FileNotFoundError, ValueError):
        return False
