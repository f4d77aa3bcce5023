# SPDX-License-Identifier: Apache-2.0
"""A rank makes a collective call too many."""
from failure import Failure

FAILURE = Failure('an extra collective', r'#\d+ all_?reduce( sum float32)? *\[2\]|collective mismatch',
                  launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('extra'))
