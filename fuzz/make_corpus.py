#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of store_wire_fuzz, made of the recorded requests, into DIRECTORY.

usage: make_corpus.py DIRECTORY && corpus.py add corpora/store_wire.txt DIRECTORY
"""
import csv
import pathlib
import sys

VECTORS = pathlib.Path(__file__).parent.parent / "tests/data/tcpstore-vectors.tsv"


def pieces(client: int, data: bytes) -> bytes:
    """`data` as sent by `client`, in the fuzz target's format."""
    cuts = [data[i : i + 255] for i in range(0, len(data), 255)]
    return b"".join(bytes([client, len(cut)]) + cut for cut in cuts)


def main(directory: pathlib.Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with open(VECTORS, newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["direction"] == "request"]
    greeting = {"N": bytes.fromhex(rows[0]["hex"]), "O": b""}
    together = {"N": b"", "O": b""}
    for row in rows:
        request = bytes.fromhex(row["hex"])
        hello = greeting[row["dialect"]]
        if request != hello:
            alone = pieces(0, hello + request) + pieces(1, hello) + pieces(1, request)
            (directory / row["id"]).write_bytes(alone)
        together[row["dialect"]] += request
    for dialect, requests in together.items():
        (directory / f"all_{dialect}").write_bytes(pieces(0, requests))
    both = pieces(0, together["N"]) + pieces(1, together["O"]) + b"\x03\x00" + pieces(2, together["N"])
    (directory / "all_clients").write_bytes(both)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
