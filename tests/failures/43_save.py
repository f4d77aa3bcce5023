# SPDX-License-Identifier: Apache-2.0
"""The disk is full to which a rank saves its model."""
from failure import Failure

FAILURE = Failure('full disk at save', r'no space left|disk .*full|file write failed|unexpected pos', launchers=('ddprun', 'torchrun'), with_ddp=True, needs_root=True)


def inject(job):
    job.environment['FAILURES_DISK'] = job.small_disk()
    job.run(job.ddp('save'))
