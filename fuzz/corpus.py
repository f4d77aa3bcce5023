#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the corpora of the fuzz targets: one text file each, one line per input.

usage: corpus.py unpack FILE DIRECTORY     writes each input into a file of its own
       corpus.py add FILE INPUT...         adds inputs, files or folders of them, that FILE does not hold

A line is a name and pieces, which are joined. A piece is 'TEXT', or 'TEXT'*N for N times that text.
In a text, \\n \\r \\t \\' \\\\ and \\xHH are as in C, and \\x takes exactly two digits.
"""
import pathlib
import re
import sys

PIECE = re.compile(rb" '((?:[^'\\]|\\.)*)'(?:\*(\d+))?")
ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)")
PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"'": b"'", b"\\": b"\\"}
ESCAPED = {value[0]: b"\\" + name for name, value in PLAIN.items()}
LONGEST_UNIT = 160  # bytes of a text that is written once for many
SAVES = 32  # bytes that a repetition has to save


def escape(data: bytes) -> bytes:
    return b"".join(
        ESCAPED.get(byte) or (bytes([byte]) if 0x20 <= byte < 0x7F else b"\\x%02x" % byte) for byte in data
    )


def unescape(text: bytes) -> bytes:
    return ESCAPE.sub(lambda m: bytes([int(m[1][1:], 16)]) if len(m[1]) == 3 else PLAIN[m[1]], text)


def repetition(data: bytes, at: int) -> tuple[int, int]:
    """The length of the unit and how often it stands at `at`; (0, 0): not worth a piece of its own."""
    for unit in range(1, LONGEST_UNIT + 1):
        text = data[at : at + unit]
        if text != data[at + unit : at + 2 * unit]:
            continue
        times = 2
        while data.startswith(text, at + times * unit):
            times += 1
        if (times - 1) * unit >= SAVES:
            return unit, times
    return 0, 0


def line_of(name: str, data: bytes) -> bytes:
    pieces, begin, at = [], 0, 0
    while at < len(data):
        unit, times = repetition(data, at)
        if not unit:
            at += 1
            continue
        if begin < at:
            pieces.append(b"'%s'" % escape(data[begin:at]))
        pieces.append(b"'%s'*%d" % (escape(data[at : at + unit]), times))
        begin = at = at + unit * times
    if begin < at or not pieces:
        pieces.append(b"'%s'" % escape(data[begin:]))
    return b" ".join([name.encode(), *pieces]) + b"\n"


def read(file: pathlib.Path) -> dict[str, bytes]:
    inputs = {}
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if line.startswith(b"#") or not line:
            continue
        name, pieces = re.fullmatch(rb"([\w.-]+)(.*)", line).groups()
        if PIECE.sub(b"", pieces) or name.decode() in inputs:
            sys.exit(f"{file}:{number}: not a name and pieces, or the name is used twice")
        inputs[name.decode()] = b"".join(
            unescape(text) * int(times or 1) for text, times in PIECE.findall(pieces)
        )
    return inputs


def write(file: pathlib.Path, inputs: dict[str, bytes]) -> None:
    comments = [line for line in file.read_bytes().splitlines(True) if line.startswith(b"#")]
    file.write_bytes(b"".join(comments) + b"".join(line_of(*item) for item in inputs.items()))


def unpack(file: pathlib.Path, directory: pathlib.Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in read(file).items():
        (directory / name).write_bytes(data)


def add(file: pathlib.Path, *sources: pathlib.Path) -> None:
    inputs = read(file)
    known = set(inputs.values())
    for source in sources:
        for path in sorted(source.iterdir()) if source.is_dir() else [source]:
            data = path.read_bytes()
            if data in known:
                continue
            # libFuzzer names an input by its hash, of which a part is enough here.
            name = re.sub(r"[0-9a-f]{40}$", lambda digest: digest[0][:12], path.name)
            if name in inputs:
                sys.exit(f"{file}: has another input named {name}")
            inputs[name] = data
            known.add(data)
            print(f"{file}: added {name}, {len(data)} bytes")
    write(file, inputs)


if __name__ == "__main__":
    command = {"unpack": unpack, "add": add}.get(sys.argv[1] if len(sys.argv) > 3 else "")
    if not command:
        sys.exit(__doc__)
    command(*map(pathlib.Path, sys.argv[2:]))
