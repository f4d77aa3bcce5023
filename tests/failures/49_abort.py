# SPDX-License-Identifier: Apache-2.0
"""A library of a rank calls abort()."""
from failure import Failure

FAILURE = Failure('a native abort', r'SIGABRT', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('abort'))
