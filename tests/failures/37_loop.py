# SPDX-License-Identifier: Apache-2.0
"""A rank computes without end."""
from failure import Failure

FAILURE = Failure('an endless loop', r'find_next', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('loop'))
