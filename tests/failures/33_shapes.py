# SPDX-License-Identifier: Apache-2.0
"""A rank has a larger model than the others."""
from failure import Failure

FAILURE = Failure('model shapes differ', r'sizes? .*match|shape', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('shapes'))
