# SPDX-License-Identifier: Apache-2.0
"""The table of faults. Each is a function of the job and of dice, which returns what it did as text, or None if
nothing it needs is there. What it explains (exit codes, the end of a life) it writes into the lives it meets."""
import random
from dataclasses import dataclass
from typing import Callable

FAULTS = {}


@dataclass(frozen=True)
class Fault:
    name: str
    do: Callable
    restarts: bool     # may cost a restart: a job that ends by failures has few of these
    logs: tuple        # the file systems of --log_dir that it needs; empty: any
    broken: str        # why it is switched off; empty: it is not


def fault(restarts=False, logs=(), broken=''):
    def enter(function):
        FAULTS[function.__name__] = Fault(function.__name__, function, restarts, logs, broken)
        return function
    return enter


def choose(seed, index, logs, fails, only):
    """The name of a history's fault. A new fault in the table takes a few places of others and leaves the rest,
    so that a seed keeps most of its meaning. `only`: names, also of some that are switched off; empty: all."""
    def fits(each):
        wanted = each.name in only if only else not each.broken and not (fails and each.restarts)
        return wanted and not (each.logs and logs not in each.logs)
    usable = [name for name, each in FAULTS.items() if fits(each)]
    return min(usable, key=lambda name: random.Random(f'{seed} {index} {name}').random())


def explain(life, *codes, mark=None):
    """These exit codes are right for this life from here on."""
    life.codes.update(codes)
    if mark:
        life.marks.add(mark)


def some_life(job, dice, lives=None):
    lives = job.nodes() if lives is None else lives
    return dice.choice(sorted(lives, key=lambda life: life.name)) if lives else None


def some_worker(job, dice):
    """(life, pid, text); None: no worker runs."""
    found = [(life, pid, f'rank {rank} (pid {pid}) on {life.name}')
             for life in job.nodes() for rank, pid in life.workers()]
    return dice.choice(found) if found else None
