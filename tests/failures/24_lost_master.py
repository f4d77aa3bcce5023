# SPDX-License-Identifier: Apache-2.0
"""The host of the rendezvous dies."""
from failure import Failure

FAILURE = Failure('lost master', r'lost|closed the connection|connection (was )?(closed|reset|refused)|unreachable',
                  ranks=(), host=1, nodes=(2,))


def inject(job):
    job.start(job.worker('wait'))
    job.wait_for_ranks()
    job.kill(1)
    job.wait_for_words(FAILURE.cause)
