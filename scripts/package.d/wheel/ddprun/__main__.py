# SPDX-License-Identifier: Apache-2.0
"""python -m ddprun OPTIONS: runs the program that this package has installed, with this Python for workers."""
import importlib.metadata
import os
import sys


def program():
    """Its path, in the folder for programs of where the package is: an environment, a user's or a target folder."""
    files = importlib.metadata.files("ddprun") or []
    paths = (str(file.locate()) for file in files if file.parts[-2:] == ("bin", "ddprun"))
    path = next(paths, None)
    if path is None:
        sys.exit("ddprun: the package ddprun has no program bin/ddprun here: install it again with pip")
    return os.path.realpath(path)


os.environ.setdefault("PYTHON_EXEC", sys.executable)  # as `python -m torch.distributed.run`
os.execv(program(), ["ddprun", *sys.argv[1:]])
