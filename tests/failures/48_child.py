# SPDX-License-Identifier: Apache-2.0
"""A rank waits for a process that does not end."""
from failure import Failure

FAILURE = Failure('a hung child', r'run_child', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('child'))
