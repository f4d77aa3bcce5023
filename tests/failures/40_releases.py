# SPDX-License-Identifier: Apache-2.0
"""A host has another release of PyTorch: the same one, which says that it is another."""
import os
import re

from failure import Failure
from launchers import interop

FAILURE = Failure('two versions of torch', r'(PyTorch|torch) 2\.4\.0', ranks=(), nodes=(2,),
                  launchers=('ddprun', 'torchrun'), with_ddp=True)


def other_release(folder):
    """A path for PYTHONPATH."""
    installed, = (os.path.join(interop(), 'lib', name, 'site-packages/torch')
                  for name in os.listdir(f'{interop()}/lib') if name.startswith('python'))
    os.makedirs(f'{folder}/other/torch')
    for name in os.listdir(installed):
        if name not in ('version.py', '__pycache__'):
            os.symlink(f'{installed}/{name}', f'{folder}/other/torch/{name}')
    text = open(f'{installed}/version.py', encoding='utf-8').read()
    with open(f'{folder}/other/torch/version.py', 'w', encoding='utf-8') as file:
        file.write(re.sub(r'^__version__ = .*', "__version__ = '2.4.0'", text, flags=re.MULTILINE))
    return f'{folder}/other'


def inject(job):
    path = f'{other_release(job.folder)}:{job.launcher.python_path}'
    job.start(job.ddp('wait'), environment={2: {'PYTHONPATH': path}})
    job.wait_until(lambda: job.says(FAILURE.cause))
