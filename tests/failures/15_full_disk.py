# SPDX-License-Identifier: Apache-2.0
"""A rank fills the disk on which its output is kept, too."""
from failure import Failure

FAILURE = Failure('full disk', r'no space left|disk .*full|full disk', needs_root=True)


def inject(job):
    disk = job.environment['FAILURES_DISK'] = job.small_disk()
    job.run(job.worker('disk'), {'ddprun': ['--redirects', '3', '--log_dir', disk],
                                 'torchrun': ['--redirects', '3', '--log-dir', disk],
                                 'mpirun': ['--output-filename', disk]})
