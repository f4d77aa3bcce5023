# SPDX-License-Identifier: Apache-2.0
"""A rank takes 0.4 s longer for each step than the others."""
from failure import Failure

FAILURE = Failure('a slow rank', r'be_slow|behind|slow', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('slow'))
