# SPDX-License-Identifier: Apache-2.0
"""Attackers of a job's port, who know its protocols, and a worker that notices them.

attacker.py port HOST PORT JOB FOLDER [UID]
    Tries all that a stranger can, as the user UID if it is given. FOLDER has what another one recorded.
    Prints a line for each attack, its name and what it got: "in", or "nothing". Then holds connections
    that have begun until it is killed.
attacker.py between PORT HOST HOST_PORT FOLDER [TRICK...]
    Passes connections to PORT on to HOST, and records them in FOLDER as N.agent and N.master. A trick for
    each connection, in their order; those that follow are passed on unchanged, and the first of these is logged.
attacker.py flood HOST PORT FOLDER
    Repeats the first records of FOLDER, again and again, and keeps the newest 2,000 connections open.
attacker.py sniff INTERFACE FILE
    Writes all that passes the interface to FILE.
attacker.py member HOST PORT JOB SECRET_FILE WORD...
    A node that somebody who has the secret made up: joins the job that runs WORD..., and ends it.
attacker.py worker HOST PORT FOLDER
    A worker: rank 0 sets a key, and when FOLDER/finish exists each one expects it unchanged.
"""
import collections
import encodings.idna  # here, as another user may not read Python's own files
import hmac
import io
import itertools
import json
import os
import pathlib
import resource
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

DEADLINE = 40.0
STORE_GREETING = b"\x00\xce\xf7\x85\x3c"
SET, GET, ADD, WAIT, DELETE, PING, LIST_KEYS = 1, 3, 4, 6, 8, 13, 17
HANDSHAKE, APPLICATION = 0x16, 0x17
ALERT = 64  # more than an encrypted one takes
FORGED_ALERT = b"\x15\x03\x03\x00\x02\x02\x33"  # "the two secrets differ"


def text(content):
    return struct.pack("<Q", len(content)) + content


def frame(**fields):
    body = json.dumps(fields).encode()
    return struct.pack(">I", len(body)) + body


def greeted(*frames):
    return b"ddprun\x00\x06" + b"".join(frames)


def first_record(stream):
    return stream[: 5 + struct.unpack(">H", stream[3:5])[0]]


CLOSED = frame(type="closed", ending=dict(type="succeeded"))


def hello(job, session="attacker", number=1, least=2):
    return frame(type="hello", run_id=job, min_nodes=least, max_nodes=2, host="attacker", session=session,
                 received=0, ticket="", number=number, addresses=[])


class Port:
    def __init__(self, host, port, job, folder):
        self.at = (host, int(port))
        self.job = job
        names = sorted(pathlib.Path(folder).glob("*.agent"))
        self.recordings = list(filter(None, (name.read_bytes() for name in names)))  # not of a line that just began
        self.held = []

    def connect(self):
        return socket.create_connection(self.at, timeout=DEADLINE)

    def answer(self, request, size=1 << 20):
        """What comes back until it is so much, or the port closes the connection."""
        with self.connect() as peer:
            return self.answer_on(peer, request, size)

    @staticmethod
    def answer_on(peer, request, size=1 << 20):
        received = b""
        try:
            peer.sendall(request)
            while len(received) < size:
                piece = peer.recv(4096)
                if not piece:
                    break
                received += piece
        except ConnectionError:
            pass
        return received

    def frames(self, request):
        """The types of the messages that come back to an agent that says no more."""
        with self.connect() as peer:
            received = self.answer_on(peer, request, 4)
            while len(received) >= 4 and (size := 4 + struct.unpack(">I", received[:4])[0]) > len(received):
                piece = peer.recv(size - len(received))
                assert piece, "half a message"
                received += piece
        assert b"known-only-here" not in received, received
        return json.loads(received[4:])["type"] if len(received) > 4 else ""

    # The control protocol.

    def joins(self):
        return self.frames(greeted(hello(self.job))) == "welcome"

    def guesses_the_job(self):  # which no answer names
        return self.frames(greeted(hello("another"))) == "welcome"

    def forges_an_end(self):
        end = frame(type="gone", session="attacker", how="it was killed")
        return self.frames(greeted(end)) not in ("", "refused")

    def begins_with_garbage(self):
        return self.answer(b"\x16\x03\x01\x00\x05hello", 1 << 10)[7:] != b""

    def uses_another_tls(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.minimum_version = context.maximum_version = version
            with self.connect() as peer:
                try:
                    context.wrap_socket(peer)
                    return True
                except OSError:
                    pass
        return False

    def repeats(self):
        """A recording that is believed brings more than its beginning does: a welcome."""
        for recording in self.recordings:
            if recording[0] != HANDSHAKE:
                if self.answer(recording, 4):
                    return True
            elif len(self.last_answer(recording)) > len(self.last_answer(first_record(recording))) + ALERT:
                return True
        return False

    def last_answer(self, request):
        """What comes back to a request after which nothing follows."""
        with self.connect() as peer:
            answer = self.answer_on(peer, request, 1)  # who hangs up before gets none
            try:
                peer.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return answer + self.answer_on(peer, b"")

    def reflects(self):
        """Sends the master's own bytes to it."""
        for recording in self.recordings[:1]:
            if recording[0] == HANDSHAKE and self.last_answer(self.last_answer(first_record(recording)))[7:]:
                return True
        return False

    def takes_over_a_session(self):
        """Says that a worker of a member has failed, as that member: it ends the job."""
        for recording in self.recordings:
            at = recording.find(b'"session":"')
            if at < 0:
                continue
            session = recording[at + 11 :].split(b'"')[0].decode()
            failure = dict(rank=1, wait_status=0x700, pid=1, seconds=1.0, host="attacker", cause="", stderr_tail="",
                           exception="", traceback="", hung=False, log_folder="")
            request = greeted(hello(self.job, session, 1_000_000), frame(type="fail", round=0, failure=failure))
            return self.answer(request, 4) != b""
        return False

    # The store.

    def reads(self):
        return b"weights" in self.answer(STORE_GREETING + bytes([GET]) + text(b"model"), 15)

    def lists(self):
        return b"model" in self.answer(STORE_GREETING + bytes([LIST_KEYS]), 21)

    def writes(self):
        request = STORE_GREETING + bytes([SET]) + text(b"model") + text(b"stolen!") + bytes([PING]) + b"ping"
        return self.answer(request, 4) == b"ping"

    def adds(self):
        return self.answer(STORE_GREETING + bytes([ADD]) + text(b"count") + struct.pack("<q", 1), 8) != b""

    def deletes(self):
        return self.answer(STORE_GREETING + bytes([DELETE]) + text(b"other"), 8) != b""

    def reads_as_an_old_client(self):
        return self.answer(bytes([2]) + text(b"model"), 15) != b""

    def hold(self):
        """Half hellos, silent connections, and records that never end."""
        begins = [b"", b"ddprun\x00\x06", greeted(struct.pack(">I", 16_000) + b"{"), b"\x16\x03\x01\x03"]
        begins += [recording[:100] for recording in self.recordings[:1]]
        for begin in begins * 20:
            peer = self.connect()
            self.held.append(peer)
            try:
                peer.sendall(begin)
            except ConnectionError:  # it is closed already
                pass


ATTACKS = ("reads", "lists", "adds", "deletes", "reads_as_an_old_client", "writes", "joins", "guesses_the_job",
           "forges_an_end", "begins_with_garbage", "uses_another_tls", "reflects", "repeats", "takes_over_a_session")


def attack_port(host, port, job, folder, uid=None):
    attacker = Port(host, port, job, folder)
    if uid:
        os.setresuid(int(uid), int(uid), int(uid))
    attacker.hold()
    for name in ATTACKS:
        print(name, "in" if getattr(attacker, name)() else "nothing", flush=True)
    print("done", flush=True)
    time.sleep(600)


def flood(host, port, folder):
    recordings = [name.read_bytes() for name in sorted(pathlib.Path(folder).glob("*.agent"))]
    records = [first_record(each) for each in recordings if each[:1] == bytes([HANDSHAKE])]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = collections.deque(maxlen=min(2_000, most - 100))
    for number in itertools.count(1):
        try:
            peer = socket.create_connection((host, int(port)), timeout=DEADLINE)
            held.append(peer)
            peer.sendall(records[number % len(records)])
        except ConnectionError:  # it is closed already
            pass
        if number == held.maxlen:
            print("floods", flush=True)


def encrypted_line(host, port, job, secret):
    """Of openssl's own client, with the key that the job has from its secret."""
    extracted = hmac.digest(b"ddprun", secret, "sha256")
    key = hmac.digest(extracted, b"control line, agent to master\0" + job.encode() + b"\1", "sha256")
    return subprocess.Popen(["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_3", "-quiet", "-psk", key.hex(),
                             "-psk_identity", f"ddprun1/{job}"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def hash_of(words):
    """Of a command, by which nodes are compared."""
    value = 0xCBF29CE484222325
    for byte in b"".join(word.encode() + b"\0" for word in words):
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value >> 11


def be_member(host, port, job, secret_file, *command):
    line = encrypted_line(host, port, job, bytes.fromhex(pathlib.Path(secret_file).read_text()))
    exits = dict(failed=[], stopped=[], killed=[], signal="", seconds=0.0, places=[], calls=[])
    join = dict(type="join", local_size=1, host="insider", is_host=False, hosting=False, store_port=0, cannot_run="",
                command="", command_hash=hash_of(command), last_round=-1, last_master="", last_node_rank=-1,
                last_guests=0, last_hosted=False, last_restarts=0, restarts=0, role="", worker_exits=exits)
    line.stdin.write(greeted(hello(job, least=1), frame(**join)))
    answers = io.BufferedReader(line.stdout)  # which reads on until it has all of a message
    while size := answers.read(4):
        message = json.loads(answers.read(*struct.unpack(">I", size)))
        print(message["type"], flush=True)
        if message["type"] == "ready":
            join.update(last_round=message["round"], last_node_rank=message["node_rank"], last_guests=message["guests"])
            failure = dict(rank=message["first_rank"], wait_status=7 << 8, pid=1, seconds=1.0, host="insider", cause="",
                           stderr_tail="it was me", exception="", traceback="", hung=False, log_folder="")
            line.stdin.write(frame(type="fail", round=message["round"], failure=failure))
        elif message["type"] == "broken":
            line.stdin.write(frame(**join))
        elif message["type"] == "closed":
            line.stdin.write(frame(type="gone", session="attacker", how="it went"))


class Line:
    """One connection between an agent and its master, and what lies between."""

    def __init__(self, number, trick, agent, master, folder):
        self.trick = trick
        self.sockets = {"agent": agent, "master": master}
        self.folder = folder
        self.number = number
        self.seen = {"agent": 0, "master": 0}  # encrypted records
        self.kept = b""
        for side in self.sockets:
            threading.Thread(target=self.pass_on, args=(side,), daemon=True).start()

    def pass_on(self, side):
        other = self.sockets["master" if side == "agent" else "agent"]
        try:
            with open(self.folder / f"{self.number}.{side}", "wb", buffering=0) as recording:
                while piece := self.next_piece(self.sockets[side]):
                    recording.write(piece)
                    other.sendall(self.changed(side, piece))
        except OSError:
            pass
        self.close()

    @staticmethod
    def next_piece(source):
        """A record of TLS, or what there is."""
        header = source.recv(5, socket.MSG_WAITALL)
        if len(header) < 5 or header[1] != 3 or header[0] not in range(0x14, 0x18):
            return header + (source.recv(4096, socket.MSG_DONTWAIT) if len(header) == 5 else b"")
        return header + source.recv(struct.unpack(">H", header[3:])[0], socket.MSG_WAITALL)

    def changed(self, side, piece):
        if piece[0] == APPLICATION:
            self.seen[side] += 1
        trick = getattr(self, self.trick, None)
        return trick(side, piece) if trick else piece

    def is_due(self, side, piece, wanted="agent"):  # after the handshake's two, and what is said first
        return side == wanted and piece[0] == APPLICATION and self.seen[side] == 4

    def close(self):
        for each in self.sockets.values():
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self, last=b"", side="agent"):
        self.sockets[side].sendall(last)
        self.close()
        raise OSError

    # Tricks with a line that was welcomed.

    def cuts(self, side, piece):
        if self.is_due(side, piece):
            self.end(piece[: len(piece) // 2], "master")
        return piece

    def changes(self, side, piece):
        return piece[:-1] + bytes([piece[-1] ^ 1]) if self.is_due(side, piece) else piece

    def changes_back(self, side, piece):
        return piece[:9] + bytes([piece[9] ^ 0x80]) + piece[10:] if self.is_due(side, piece, "master") else piece

    def doubles(self, side, piece):
        return piece * 2 if self.is_due(side, piece) else piece

    def leaves_out(self, side, piece):
        return b"" if self.is_due(side, piece) else piece

    def swaps(self, side, piece):
        if self.is_due(side, piece):
            self.kept = piece
            return b""
        kept, self.kept = (self.kept, b"") if side == "agent" else (b"", self.kept)
        return piece + kept

    def sends_back(self, side, piece):
        if self.is_due(side, piece):
            self.sockets["agent"].sendall(piece)
        return piece

    def injects(self, side, piece):
        return piece + CLOSED if self.is_due(side, piece, "master") else piece

    # Tricks with a line that begins.

    def refuses(self, side, piece):
        self.end(FORGED_ALERT)

    def pretends(self, side, piece):
        self.end(frame(type="welcome", master="m", resumed=False, received=0, heartbeat_ms=0, lease_ms=0,
                       max_restarts=0, ticket="", hang_timeout_ms=0) + CLOSED)

    def repeats_the_master(self, side, piece):
        self.end((self.folder / "0.master").read_bytes())

    def downgrades(self, side, piece):
        return piece.replace(b"\x00\x2b\x00\x03\x02\x03\x04", b"\x00\x2b\x00\x03\x02\x03\x03")


def attack_between(port, host, host_port, folder, *tricks):
    listening = socket.create_server(("", int(port)))
    for number in itertools.count():
        agent, _ = listening.accept()
        trick = tricks[number] if number < len(tricks) else "passes"
        print(number, trick, flush=True)
        Line(number, trick, agent, socket.create_connection((host, int(host_port))), pathlib.Path(folder))


def sniff(interface, path):
    everything = 0x0003
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(everything))
    packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    packets.bind((interface, 0))
    with open(path, "wb", buffering=0) as recording:
        print("sniffs", flush=True)
        while packet := packets.recv(1 << 16):
            recording.write(packet)


def work(host, port, folder):
    store = socket.create_connection((host, int(port)), timeout=DEADLINE)
    store.sendall(STORE_GREETING)
    if os.environ["RANK"] == "0":
        for key, value in ((b"known-only-here", b"secret"), (b"model", b"weights")):
            store.sendall(bytes([SET]) + text(key) + text(value))
    store.sendall(bytes([WAIT]) + struct.pack("<Q", 1) + text(b"model"))
    assert store.recv(1) == b"\0", "the store refused its own worker"
    print("runs", flush=True)
    while not os.path.exists(folder + "/finish"):
        time.sleep(0.05)
    store.sendall(bytes([GET]) + text(b"model"))
    value = store.recv(15, socket.MSG_WAITALL)[8:]
    print("value", value.decode(), flush=True)
    assert value == b"weights", "the key was changed"


COMMANDS = {"port": attack_port, "between": attack_between, "flood": flood, "sniff": sniff, "member": be_member, "worker": work}
COMMANDS[sys.argv[1]](*sys.argv[2:])
