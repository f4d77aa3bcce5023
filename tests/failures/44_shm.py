# SPDX-License-Identifier: Apache-2.0
"""A rank fills its host's /dev/shm."""
from failure import Failure

FAILURE = Failure('full /dev/shm', r'no space left', launchers=('ddprun', 'torchrun'), with_ddp=True, needs_root=True)


def inject(job):
    job.environment['FAILURES_SHM'] = job.small_disk()
    job.run(job.ddp('shm'))
