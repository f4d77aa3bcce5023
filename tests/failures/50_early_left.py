# SPDX-License-Identifier: Apache-2.0
"""A rank leaves the group and ends with 0 while the others go on."""
from failure import Failure

FAILURE = Failure('leaves early', r'ended with exit code 0', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('early_left'))
