# SPDX-License-Identifier: Apache-2.0
"""Each step of a rank takes 0.4 s longer, and the job goes on."""
from failure import Failure

FAILURE = Failure('a slow rank', r'\bis slow\b|\bbehind\b|straggl', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.start(job.ddp('late'))
    job.wait_until(lambda: job.says(FAILURE.cause))
