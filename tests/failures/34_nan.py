# SPDX-License-Identifier: Apache-2.0
"""A rank raises an exception because its loss is not a number."""
from failure import Failure

FAILURE = Failure('NaN on one rank', r'loss is nan', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('nan'))
