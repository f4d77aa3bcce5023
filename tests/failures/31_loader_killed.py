# SPDX-License-Identifier: Apache-2.0
"""A process of a rank's data loader is killed."""
from failure import Failure

FAILURE = Failure('data loader killed', r'DataLoader worker .*killed by signal', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('loader_killed'))
