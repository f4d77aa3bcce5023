# SPDX-License-Identifier: Apache-2.0
"""Another server has the port of the job."""
from failure import Failure

FAILURE = Failure('port taken', r'not (a )?ddprun|another program|already in use',
                  ranks=(), host=1, nodes=(2,), launchers=('ddprun', 'torchrun'))


def inject(job):
    job.take_port()
    job.start(job.worker('wait'))
    job.wait_for_words(FAILURE.cause)
