# SPDX-License-Identifier: Apache-2.0
"""A hook of a rank hangs in backward()."""
from failure import Failure

FAILURE = Failure('a backward hook', r'hook \(', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('hook'))
