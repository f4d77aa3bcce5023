# SPDX-License-Identifier: Apache-2.0
"""A worker for each GPU, on a host that has none."""
from failure import Failure

FAILURE = Failure('no GPU', r'has none|no (CUDA )?GPUs?|CUDA is not available|no (nvidia )?devices?',
                  ranks=(), launchers=('ddprun', 'torchrun'))


def inject(job):
    job.local_size = 'gpu'
    no_gpu = {job.last_node: {'CUDA_VISIBLE_DEVICES': ''}}
    job.start(job.worker('wait'), nodes=[job.last_node], environment=no_gpu)
    job.finish()
