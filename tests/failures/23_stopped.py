# SPDX-License-Identifier: Apache-2.0
"""A rank is stopped."""
from failure import Failure

FAILURE = Failure('stopped process', r'stopped by SIGSTOP')


def inject(job):
    job.start(job.worker('stop'))
    job.wait_for_words(FAILURE.cause)
