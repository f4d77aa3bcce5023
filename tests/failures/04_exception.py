# SPDX-License-Identifier: Apache-2.0
"""A rank raises an exception."""
from failure import Failure

FAILURE = Failure('exception', r'ValueError: loss is nan')


def inject(job):
    job.run(job.worker('exception'))
