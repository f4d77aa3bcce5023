# SPDX-License-Identifier: Apache-2.0
"""A shared library of the program is missing on one node."""
import os

from failure import Failure

FAILURE = Failure('missing library', r'error while loading shared libraries: libxdp\.so')


def inject(job):
    with open(os.environ['FAILURES_WORKER'], 'rb') as file:
        program = file.read().replace(b'libddp.so', b'libxdp.so')  # which is nowhere
    path = os.path.join(job.folder, 'program')
    with open(path, 'wb') as file:
        file.write(program)
    os.chmod(path, 0o755)
    job.environment['FAILURES_PROGRAM'] = path
    job.run(job.worker('library'))
