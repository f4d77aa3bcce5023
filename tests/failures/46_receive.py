# SPDX-License-Identifier: Apache-2.0
"""A rank waits for a message that nobody sends."""
from failure import Failure

FAILURE = Failure('a receive without send', r'\brecv \(|, in recv\b', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('receive'))
