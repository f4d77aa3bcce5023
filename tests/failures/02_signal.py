# SPDX-License-Identifier: Apache-2.0
"""A rank is killed by a signal, and its core is kept."""
from failure import Failure

FAILURE = Failure('killed by a signal', r'SIGSEGV|segmentation fault')


def inject(job):
    job.environment['PYTHONFAULTHANDLER'] = '1'
    job.run(job.worker('crash'))
