# SPDX-License-Identifier: Apache-2.0
"""A rank computes on a GPU where there is none."""
from failure import Failure

FAILURE = Failure('no CUDA on one host', r'CUDA|NVIDIA', launchers=('ddprun', 'torchrun'), with_ddp=True)


def inject(job):
    job.run(job.ddp('gpu'))
