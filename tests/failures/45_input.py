# SPDX-License-Identifier: Apache-2.0
"""A rank asks its user."""
from failure import Failure

FAILURE = Failure('input() without terminal', r'EOFError', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('input'))
