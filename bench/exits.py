#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How workers end that never destroy their process group of PyTorch's gloo: a thread of it may give a tensor back while
Python ends, and aborts ("terminate called without an active exception").

    bench/exits.py [RUNS]    jobs of two workers under each launcher, in turn (50)

Prints the exit codes of the workers' processes, as each says by itself, and how likely chance alone makes launchers
differ so much (Fisher's exact test). DDPRUN is ddprun (build/bin/ddprun);
PyTorch is that of scripts/setup --interop.
"""
import collections
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
ENVIRONMENT = subprocess.run([f'{ROOT}/scripts/interop-env', '--where'], stdout=subprocess.PIPE, text=True,
                             check=True).stdout.strip()
PYTHON = f'{ENVIRONMENT}/bin/python3'
LAUNCHERS = {'ddprun': [os.environ.get('DDPRUN', f'{ROOT}/build/bin/ddprun')],
             'torchrun': [PYTHON, '-m', 'torch.distributed.run']}
WORKER = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
"""
# Its parent is no Python, and tells how it ended before the launcher stops anyone.
PARENT = f'"{PYTHON}" worker.py; echo $? >"$RANK"'


def exits(launcher):
    with tempfile.TemporaryDirectory() as folder:
        with open(f'{folder}/worker.py', 'w', encoding='utf-8') as file:
            file.write(WORKER)
        line = [*LAUNCHERS[launcher], '--nproc_per_node', '2', '--no_python', 'sh', '-c', PARENT]
        subprocess.run(line, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True,
                       env=dict(os.environ, OMP_NUM_THREADS='1', GLOO_SOCKET_IFNAME='lo'))
        for rank in '01':
            with open(f'{folder}/{rank}', encoding='utf-8') as file:
                yield int(file.read())


def chance(failed, ended):
    """Of two samples of so many that ended to differ at least as much as the two numbers that failed."""
    total = sum(failed)
    ways = [math.comb(ended, i) * math.comb(ended, total - i) for i in range(total + 1)]
    return sum(way for way in ways if way <= ways[failed[0]]) / sum(ways)


found = {launcher: collections.Counter() for launcher in LAUNCHERS}
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 50):
    for launcher, codes in found.items():
        codes.update(exits(launcher))
for launcher, codes in found.items():
    print(f'{launcher}: ' + ', '.join(f'{count} workers ended with {code}' for code, count in sorted(codes.items())))
failed = [codes.total() - codes[0] for codes in found.values()]
print(f'chance alone makes such a difference with a probability of {chance(failed, codes.total()):.2f}')
