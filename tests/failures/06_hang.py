# SPDX-License-Identifier: Apache-2.0
"""A rank sleeps while the others wait for it in a collective."""
from failure import Failure

FAILURE = Failure('a rank hangs', r'asleep|sleep|no call|made none')


def inject(job):
    job.run(job.collective('hang'))
