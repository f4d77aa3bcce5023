# SPDX-License-Identifier: Apache-2.0
"""Two threads of a rank wait for each other's lock."""
from failure import Failure

FAILURE = Failure('lock order', r'lock_both', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('locks'))
