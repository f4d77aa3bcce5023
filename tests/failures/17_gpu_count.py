# SPDX-License-Identifier: Apache-2.0
"""More workers than GPUs."""
import os

from failure import Failure, Unfit

FAILURE = Failure('wrong number of GPUs', r'8 workers, [1-7] GPUs', ranks=(), launchers=('ddprun',))


def inject(job):
    library = os.environ.get('FAKE_NVML_LIBRARY')
    if not library:
        raise Unfit('FAKE_NVML_LIBRARY does not name the NVML of the tests')
    os.symlink(library, f'{job.folder}/libnvidia-ml.so.1')
    job.environment.update(LD_LIBRARY_PATH=job.folder, FAKE_NVML='gpu gpu gpu gpu')
    job.fake_driver()
    job.environment.pop('CUDA_VISIBLE_DEVICES', None)
    job.local_size = '8'
    job.start(job.worker('wait'), {'ddprun': ['--gpu_bind', 'isolate']}, nodes=[job.last_node])
    job.finish()
