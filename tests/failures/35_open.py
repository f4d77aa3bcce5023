# SPDX-License-Identifier: Apache-2.0
"""A rank opens a pipe to which nobody writes."""
from failure import Failure

FAILURE = Failure('a stuck open', r'open_pipe', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('open'))
