#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds #include lines to the architecture: scripts/check/layers.py [ROOT]. Exit 1: a line breaks it.

1. A room, which is a folder of sources, includes itself and the rooms below it. So rooms have no circles.
2. A unit, which is a .h and its .cc, is in no circle of includes.
3. A third-party header stays within few files.
4. A unit whose header says "Pure" reaches no asio and no process, not even through headers of ours, includes
   no header of the system that does I/O, and reads no clock.
5. JSON is parsed by base/json alone: foreign text may be as deep as it is long.
6. An aggregate of hooks, options or settings is filled by name: {.lost = ..., .proven = ...}.
"""
import pathlib
import re
import sys

# A module, the modules below it, and its rooms from the bottom up; "." is the folder itself.
MODULES = {
    "base": ("", "."),
    "engine": ("base", "."),
    "store": ("base", "."),
    "launcher": ("base", "kernel devices process guardian output"),
    "rendezvous": ("base store", ". blame round net secret wire access session etcd"),
    "agent": ("base launcher rendezvous", "job diagnosis worker mpi ask web master progress ."),
    "remote": ("base launcher", "."),
    "cli": ("base engine store launcher rendezvous agent remote", "line manifest manual ask doctor ."),
    "collectives/include/ddp": ("", "."),
    "python": ("collectives/include/ddp", "."),
    "examples": ("collectives/include/ddp", "."),  # with its folders
}
# Within collectives each is above all before it; those in one string are beside each other.
COLLECTIVES = ["", "call", "stores", "crash", "agreement", "backends", "backends/cuda backends/shm",
               "backends/cpu backends/local backends/mpi backends/nccl", "failure", "group", "training", "c"]
# A room, and those below it that it may not include all the same, with their folders.
APART = {
    "agent/ask": "launcher",
    "agent/web": "launcher",
    "cli/line": "store",
    "cli/manifest": "store",
    "cli/manual": "store",
    "cli/ask": "store",
    "cli/doctor": "engine launcher/output rendezvous/etcd agent/ask agent/web remote",
    "cli": "store agent/web",
    "collectives/backends/cpu": "collectives/backends/cuda",
}
ALSO = {"agent/ask/answers.cc": "launcher",  # it looks at the node's processes
        "agent/mpi/mpi_exchange.h": "store"}  # a client of the round's, as workers are
# Third-party headers, and the only files that may name them.
CONFINED = {
    r"CLI/": r"cli/options\.cc",
    r"toml\+\+/": r"cli/line/config\.cc",
    r"(spdlog|fmt)/": r"base/log\.cc",
    r"boost/process": r"launcher/process/worker\.cc",
    r"boost/beast": r"rendezvous/etcd/gateway\.cc|agent/ask/http_server\.cc",
    r"hwloc": r"launcher/kernel/topology\.cc",
    r"elfutils/": r"launcher/kernel/native_stack\.cc",
    r"openssl/": r"rendezvous/secret/openssl\.h",
    r"nlohmann/": r"base/json\.(h|cc)|rendezvous/wire/fields\.h",
    r"xxhash\.h": r"collectives/training/checkpoint_sum\.cc",
    r"mpi\.h": r"collectives/backends/mpi/plugin\w*\.(h|cc)",
    r"nccl\.h": r"collectives/backends/nccl/\w+\.(h|cc)",
    r"(torch|ATen|c10)/": r"collectives/include/ddp/torch\.h",
}
# No pure unit reaches EVENTS, includes SYSTEM itself (<sys/wait.h> and <netinet/in.h> only decode), or makes CALLS.
EVENTS = re.compile(r"boost/(asio|beast|process)")
SYSTEM = re.compile(r"(sys/(?!wait\.h)|net/|netinet/(?!in\.h)|linux/)|(unistd|fcntl|poll|netdb|spawn|sched|pthread|dlfcn|dirent)\.h$"
                    r"|(thread|fstream|filesystem|iostream|future|condition_variable)$")
CALLS = re.compile(r"[cC]lock::now\(|\b(?:getenv|clock_gettime)\(")
BY_POSITION = re.compile(r"\b(?:Events|Hooks|\w*Options|Settings)\{(?!\s*[.}])[^\n]*|(?:\breturn |, |\(|^\s*)\{\s*\[[^\n]*", re.MULTILINE)
PARSES_JSON = re.compile(r"\b(?i:\w*json)::(?:parse|accept|sax_parse)\(")
PURE_IN_PART = {"agent/job/error_file", "launcher/kernel/oom"}  # parse, and also read the files


def rooms_of(module):
    return [f"{module}/{room}".removesuffix("/.") for room in MODULES[module][1].split()]


BELOW = {}
for module, (below, _) in MODULES.items():
    rooms = [room for other in below.split() for room in rooms_of(other)]
    for room in rooms_of(module):
        BELOW[room] = set(rooms)
        rooms.append(room)
level = ["base store collectives/include/ddp"]
for rooms in COLLECTIVES:
    rooms = " ".join(f"collectives/{room}".rstrip("/") for room in rooms.split(" "))
    BELOW.update({room: set(" ".join(level).split()) for room in rooms.split()})
    level.append(rooms)
for above, apart in APART.items():
    for folder in apart.split():
        BELOW[above] = {room for room in BELOW[above] if not f"{room}/".startswith(f"{folder}/")}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)', re.MULTILINE)
COMMENT = re.compile(r"^\s*//.*?$", re.MULTILINE)
root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
tops = {room.split("/")[0] for room in BELOW}
texts = {
    path.relative_to(root).as_posix(): path.read_text()
    for top in sorted(tops)
    for path in sorted((root / top).rglob("*"))
    if path.suffix in (".h", ".cc", ".cu")
}
errors = []


def resolve(name):
    return "collectives/include/" + name if name.startswith("ddp/") else name


includes = {file: [resolve(name) for _, name in INCLUDE.findall(text)] for file, text in texts.items()}


def room_of(file):
    return "examples" if file.startswith("examples/") else file.rpartition("/")[0]


# A public header belongs to the .cc of its name, wherever in collectives.
implemented = {pathlib.Path(file).stem: file for file in texts
               if file.startswith("collectives/") and file.endswith(".cc")}


def unit_of(file):
    if room_of(file) == "collectives/include/ddp":
        file = implemented.get(pathlib.Path(file).stem, file)
    return file.rpartition(".")[0]


def check_rooms():
    for file, names in includes.items():
        room = room_of(file)
        if room not in BELOW:
            errors.append(f"{file}: {room} has no place in check-layers.py")
            continue
        for name in names:
            for header, owner in CONFINED.items():
                if re.match(header, name) and not re.fullmatch(owner, file):
                    errors.append(f"{file}: <{name}> belongs in {owner} alone")
            other = room_of(name)
            ours = name in texts or name.split("/")[0] in tops | {"tests", "bench", "fuzz"}
            is_exempt = file in ALSO and f"{other}/".startswith(ALSO[file] + "/")
            if ours and not is_exempt and other not in BELOW[room] | {room}:
                errors.append(f'{file}: {room} may not include "{name}"')


def circles(arrows):
    """The strongly connected components of more than one node, by Tarjan's algorithm."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            circle = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(circle) > 1:
                found.append(set(circle))

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def check_circles():
    arrows = {}
    for file, names in includes.items():
        arrows.setdefault(unit_of(file), set()).update(unit_of(name) for name in names if name in texts)
    errors.extend(f"a circle of includes: {' '.join(sorted(circle))}" for circle in circles(arrows))


def events_from(file, seen):
    """The chain of headers from `file` to asio or Boost.Process, or None."""
    seen.add(file)
    for name in includes.get(file, ()):
        if EVENTS.match(name):
            return [file, name]
        if name not in seen and (chain := events_from(name, seen)):
            return [file, *chain]
    return None


def check_pure():
    pure = {unit_of(file) for file, text in texts.items()
            if file.endswith(".h") and any(re.search(r"\bPure\b", line) for line in COMMENT.findall(text))}
    for file, text in texts.items():
        if unit_of(file) not in pure:
            continue
        if chain := events_from(file, set()):
            errors.append(f"{file}: claims to be pure, but {' includes '.join(chain)}")
        if unit_of(file) in PURE_IN_PART:
            continue
        for name in filter(SYSTEM.match, includes[file]):
            errors.append(f"{file}: claims to be pure, but includes <{name}>")
        for call in CALLS.findall(COMMENT.sub("", text)):
            errors.append(f"{file}: claims to be pure, but calls {call})")


def check_json():
    errors.extend(f"{file}: parses JSON, which is base/json's" for file, text in texts.items()
                  if unit_of(file) != "base/json" and PARSES_JSON.search(COMMENT.sub("", text)))


def check_aggregates():
    for file, text in texts.items():
        for match in BY_POSITION.finditer(COMMENT.sub("", text)):
            errors.append(f"{file}: fills an aggregate by position: {match[0].strip()}")


check_rooms()
check_circles()
check_pure()
check_json()
check_aggregates()
print("\n".join(errors) or "every include keeps to the layers")
sys.exit(1 if errors else 0)
