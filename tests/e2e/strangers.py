# SPDX-License-Identifier: Apache-2.0
"""Peers that are no part of the job, on its port: strangers.py KIND HOST PORT. Prints "ready", then holds
what it has, and attacks again, until it is killed. KIND:

silent   20,000 connections, or as many as it may open, that send nothing, from ten addresses
frames   5,000 connections that send most of an agent's first message, and no more
keys     a million keys, then clients that ask for lists of them and never read, and one that reads
readers  clients that ask for many values and never read
"""
import itertools
import resource
import socket
import struct
import sys
import time

kind, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
GREETING = b"\x00\xce\xf7\x85\x3c"
SET, PING, LIST_KEYS, MULTI_GET = 1, 13, 17, 10
held = []


def connect(source="", first=b"", receive_buffer=0):
    peer = socket.socket()
    if source:
        peer.bind((source, 0))
    if receive_buffer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    peer.connect((host, port))
    peer.sendall(first)
    held.append(peer)
    return peer


def text(content):
    return struct.pack("<Q", len(content)) + content


def set_request(key, value):
    return bytes([SET]) + text(key) + text(value)


def ping(peer):
    peer.sendall(bytes([PING]) + b"ping")
    return peer.recv(4, socket.MSG_WAITALL) == b"ping"


def silent():
    for i in range(min(20_000, limit - 100)):
        connect(f"127.9.0.{i % 10 + 1}")


def frames():
    first = b"ddprun\x00\x06" + struct.pack(">I", 16_000) + b"{" + b" " * 12_000
    for i in range(5_000):
        newest = connect(f"127.8.0.{i % 10 + 1}", first)
    newest.settimeout(0.5)
    try:
        sys.exit(f"a half frame is not waited for: {newest.recv(1000)}")
    except TimeoutError:
        pass


def keys(count):
    writer = connect(first=GREETING)
    for first in range(0, count, 10_000):
        writer.sendall(b"".join(set_request(b"key/%d" % i, b"") for i in range(first, first + 10_000)))
    if not ping(writer):
        return False
    for _ in range(64):
        connect(first=GREETING + bytes([LIST_KEYS]) * 64)
    reader = connect(first=GREETING + bytes([LIST_KEYS]))
    return struct.unpack("<Q", reader.recv(8, socket.MSG_WAITALL))[0] >= count


def readers():
    writer = connect(first=GREETING + set_request(b"value", b"x" * 31_000))
    if not ping(writer):
        return False
    request = bytes([MULTI_GET]) + struct.pack("<Q", 2_000) + text(b"value") * 2_000
    for _ in range(40):
        connect(first=GREETING + request, receive_buffer=4096)
    return ping(writer)


attacks = {
    "silent": itertools.repeat(silent, 1),
    "frames": itertools.repeat(frames, 1),
    "keys": itertools.chain([lambda: keys(1_000_000)], itertools.repeat(lambda: keys(100_000))),
    "readers": itertools.repeat(readers),
}
for attack in attacks[kind]:
    try:
        attack()
    except OSError:  # disconnected: a new round has begun
        pass
    print("ready", flush=True)
    time.sleep(0.5)
    if kind in ("keys", "readers") and len(held) > 1_000:
        held.clear()
time.sleep(600)
