# SPDX-License-Identifier: Apache-2.0
"""A node has another version of the launcher."""
import sys

from failure import Failure

FAILURE = Failure('another version', r"protocol version is 9999, the master's \d+",
                  ranks=(), nodes=(2,), launchers=('ddprun',))
STRANGER = '''
import socket, sys, time
while True:
    try:
        line = socket.create_connection((sys.argv[1], 29500))
        break
    except OSError:
        time.sleep(0.1)
line.sendall(bytes.fromhex(sys.argv[2]))
time.sleep(600)
'''


def inject(job):
    job.start(job.worker('wait'), nodes=[1])
    greeting = (b'ddprun' + (9999).to_bytes(2, 'big')).hex()
    job.run_on(2, [sys.executable, '-c', STRANGER, job.host_name(1), greeting])
    job.wait_for_words(FAILURE.cause)
