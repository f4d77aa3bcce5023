# SPDX-License-Identifier: Apache-2.0
"""A rank has reached its limit of open files."""
from failure import Failure

FAILURE = Failure('limit of open files', r'too many open files')


def inject(job):
    job.run(job.worker('files'))
