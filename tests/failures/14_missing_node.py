# SPDX-License-Identifier: Apache-2.0
"""A node is not started."""
from failure import Failure

FAILURE = Failure('missing node', r'missing node_rank 1|missing (node|host|rank)s? \S*1\b',
                  ranks=(), host=None, nodes=(2,), launchers=('ddprun', 'torchrun'))


def inject(job):
    job.start(job.worker('wait'), {'ddprun': ['--join_timeout', '3']}, nodes=[1])
    job.finish()
