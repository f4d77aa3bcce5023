# SPDX-License-Identifier: Apache-2.0
"""A rank ends with an exit code."""
from failure import Failure

FAILURE = Failure('exit code 3', r'exit(ed|code| code| status)? *(with)? *(exit code|code|status)?[ :]+3\b')


def inject(job):
    job.run(job.worker('exit'))
