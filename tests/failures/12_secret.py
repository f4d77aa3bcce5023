# SPDX-License-Identifier: Apache-2.0
"""A node has another secret."""
import os
import subprocess

from failure import Failure

FAILURE = Failure('wrong secret', r'secrets? differ', ranks=(), nodes=(2,), launchers=('ddprun',))


def inject(job):
    options = {}
    for node in (1, 2):
        path = f'{job.folder}/secret-{node}'
        subprocess.run([os.environ['DDPRUN'], 'secret', path], check=True)
        options[node] = ['--secret_file', path]
    job.start(job.worker('wait'), node_options=options)
    job.wait_for_words(FAILURE.cause)
    job.wait_until(lambda: all('differ' in text for text in job.consoles().values()))
