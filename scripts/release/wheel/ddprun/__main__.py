# SPDX-License-Identifier: Apache-2.0
"""python -m ddprun OPTIONS: runs the program that this package has installed, with this Python for workers."""
import importlib.metadata
import os
import sys


def program():
    """Its path: where pip says that it is, or beside this package after `pip install --target`, which moves it."""
    files = importlib.metadata.files("ddprun") or []
    paths = [str(file.locate()) for file in files if file.parts[-2:] == ("bin", "ddprun")]
    paths.append(os.path.join(os.path.dirname(__file__), "..", "bin", "ddprun"))
    found = next((path for path in paths if os.path.isfile(path)), None)
    if found is None:
        sys.exit(f"ddprun: there is no program {paths[0]}: install the package ddprun again")
    return os.path.realpath(found)


os.environ.setdefault("PYTHON_EXEC", sys.executable)  # as `python -m torch.distributed.run`
os.execv(program(), ["ddprun", *sys.argv[1:]])
