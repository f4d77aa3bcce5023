# SPDX-License-Identifier: Apache-2.0
"""A host dies, and its network with it."""
from failure import Failure

FAILURE = Failure('dead host', r'no heartbeat|is gone|lost|unreachable', ranks=(), nodes=(2,))


def inject(job):
    job.start(job.worker('wait'))
    job.wait_for_ranks()
    job.unplug(2)
    job.kill(2)
    job.wait_for_words(rf'(?<!\[){job.host_name(2)}\b.*({FAILURE.cause})')
