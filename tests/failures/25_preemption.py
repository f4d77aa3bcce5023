# SPDX-License-Identifier: Apache-2.0
"""A node is told to stop, and the others go on without it."""
import signal

from failure import Failure

FAILURE = Failure('preemption', r'left.*SIGTERM|SIGTERM.*left|(stopped|ended|preempted).*by SIGTERM',
                  ranks=(), nodes=(2,), launchers=('ddprun', 'torchrun'))


def inject(job):
    job.start(job.worker('wait'))
    job.wait_for_ranks()
    job.processes[2].send_signal(signal.SIGTERM)
    job.wait_for_words(FAILURE.cause)
