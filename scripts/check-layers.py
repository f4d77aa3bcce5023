#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds #include lines to the architecture: scripts/check-layers.py [ROOT]. Exit 1: a line breaks it."""
import pathlib
import re
import sys

# A folder may include itself and these.
BELOW = {
    "base": set(),
    "launcher": {"base"},
    "store": {"base"},
    "rendezvous": {"base", "store"},
    "agent": {"base", "launcher", "rendezvous"},
    "cli": {"base", "launcher", "rendezvous", "agent"},
    "collectives": {"base", "store"},
    "collectives/include": set(),
    "examples": set(),
}
# Third-party headers, and the only files that may name them.
CONFINED = {
    r"CLI/": r"cli/options\.cc",
    r"(spdlog|fmt)/": r"base/log\.cc",
    r"boost/process": r"launcher/worker\w*\.(h|cc)",
    r"hwloc": r"launcher/topology\.cc",
    r"nlohmann/": r"rendezvous/(fields|protocol)\.(h|cc)|agent/(error_file|events)\.cc|collectives/failure/trace\.cc",
    r"gloo/": r"collectives/backends/gloo/\w+\.(h|cc)",
    r"mpi\.h": r"collectives/backends/mpi/plugin\w*\.(h|cc)",
    r"nccl\.h": r"collectives/backends/(nccl|cuda)/\w+\.(h|cc)",
}
# These decide and never do: no asio, not even through a header of ours.
PURE = ("agent/machine agent/worker_env agent/report rendezvous/round rendezvous/lease rendezvous/delivery store/store "
        "store/wire launcher/binding launcher/exit_status cli/exit_code").split()

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)', re.MULTILINE)
errors = []


def includes(file):
    return INCLUDE.findall((root / file).read_text()) if (root / file).is_file() else []


def asio_from(file, seen):
    """The chain of headers from `file` to asio, or None."""
    seen.add(file)
    for quote, path in includes(file):
        if re.match(r"boost/(asio|process)", path):
            return [file, path]
        if quote == '"' and path not in seen:
            chain = asio_from(path, seen)
            if chain:
                return [file, *chain]
    return None


for folder, below in BELOW.items():
    for path in sorted((root / folder).rglob("*")):
        file = path.relative_to(root).as_posix()
        if path.suffix not in (".h", ".cc", ".cu") or (folder == "collectives" and "/include/" in file):
            continue
        for quote, name in includes(file):
            top = name.split("/")[0]
            public = top == "ddp" and folder in ("collectives", "collectives/include", "examples")
            if quote == '"' and top != folder and top not in below and not public:
                errors.append(f'{file}: {folder} may not include "{name}"')
            for header, owner in CONFINED.items():
                if re.match(header, name) and not re.fullmatch(owner, file):
                    errors.append(f"{file}: <{name}> belongs in {owner} alone")
        if re.sub(r"\.(h|cc)$", "", file) in PURE and (chain := asio_from(file, set())):
            errors.append(f"{file}: is to be pure, but {' includes '.join(chain)}")

print("\n".join(errors) or "every include keeps to the layers")
sys.exit(1 if errors else 0)
