# SPDX-License-Identifier: Apache-2.0
"""A rank makes another collective call than the others."""
from failure import Failure

FAILURE = Failure('collectives differ', r'barrier.*all_?reduce|all_?reduce.*barrier')


def inject(job):
    job.run(job.collective('desync'))
