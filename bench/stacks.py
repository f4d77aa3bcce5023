#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long `ddprun stacks` takes for many workers on one node.

    bench/stacks.py [WORKERS] [RUNS]    64 workers of each kind, RUNS questions (5)

Prints medians in seconds for workers in C (sleep), in Python, and in both with --native. DDPRUN is ddprun
(build/bin/ddprun); py-spy is needed beside python3 or in PATH for lines of Python.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
DDPRUN = os.environ.get('DDPRUN', os.path.join(ROOT, 'build/bin/ddprun'))
WAITS = 'import threading; print("ready", flush=True); threading.Event().wait()'
KINDS = {'C': ['sh', '-c', 'echo ready; exec sleep 600'], 'Python': [sys.executable, '-c', WAITS]}
count = int(sys.argv[1]) if len(sys.argv) > 1 else 64
runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5


def ask(job, options):
    """Seconds, and whether all ranks were in the answer."""
    began = time.monotonic()
    text = subprocess.run([DDPRUN, 'stacks', str(job.pid), *options], capture_output=True, text=True, check=True).stdout
    took = time.monotonic() - began
    lines = 'threading.py' in text or kind != 'Python'
    return took, lines and f'ranks 0-{count - 1} are' in text and 'not all in time' not in text


with tempfile.TemporaryDirectory() as folder:
    os.environ['XDG_RUNTIME_DIR'] = folder
    for kind, command in KINDS.items():
        job = subprocess.Popen([DDPRUN, '--nproc_per_node', str(count), *command], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        for _ in range(count):
            job.stdout.readline()
        time.sleep(1)
        for options in [], ['--native']:
            answers = [ask(job, options) for _ in range(runs)]
            whole = sum(answer[1] for answer in answers)
            print(f'{count} workers in {kind:6} {" ".join(options):8} {statistics.median(a[0] for a in answers):6.2f} s'
                  f'   {whole} of {runs} whole', flush=True)
        job.terminate()
        job.wait()
