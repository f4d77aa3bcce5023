#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_calls_network.py TEST_COLLECTIVES: runs the random sequences of calls with each rank on a host of its own. The
lines between hosts lose, delay and reorder packets. DDP_TEST_RANDOM_RUNS and DDP_TEST_RANDOM_SEED are those of
random_calls_test.cc. Exit 77: no hosts can be made here."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "chaos"))
from hosts import Network
from switch import Line

try:
    network = Network(1)
    hosts = [network.host(f"node{number}") for number in range(1, 5)]
except OSError as error:
    print(f"skipped: {error}")
    sys.exit(77)
line = Line(loss=0.002, delay=0.0005, jitter=0.0005)
network.switch.lines = {(a.address, b.address): line for a in hosts for b in hosts}
variables = dict(os.environ, DDP_TEST_WITHOUT_SHARED_MEMORY="1", DDP_TEST_STORE_ADDRESS=hosts[0].address,
                 DDP_TEST_NAMESPACES=":".join(host.namespace_path() for host in hosts))
sys.exit(subprocess.run([sys.argv[1], "random sequences*"], env=variables, preexec_fn=hosts[0].enter).returncode)
