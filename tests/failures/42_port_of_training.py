# SPDX-License-Identifier: Apache-2.0
"""Another server has the port of a training."""
from failure import Failure

FAILURE = Failure('port taken', r'not (a )?ddprun|another program|already in use',
                  ranks=(), host=1, nodes=(2,), launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.take_port()
    job.start(job.ddp('wait'))
    job.wait_for_words(FAILURE.cause)
