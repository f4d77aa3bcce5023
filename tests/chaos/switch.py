# SPDX-License-Identifier: Apache-2.0
"""A switch between hosts: forwards IPv4 packets between TUN devices, and does to them what a network may."""
import heapq
import os
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass

TCP, FIN, SYN, RST = 6, 1, 2, 4
HEADERS = struct.Struct('!HHIIBB')  # ports, sequence number, acknowledged, offset, flags


@dataclass
class Line:
    """One direction between two hosts."""
    loss: float = 0    # share of packets
    delay: float = 0   # seconds
    jitter: float = 0  # up to so much more, which also changes their order


def checksum(data):
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def reset_packet(source, source_port, target, target_port, sequence):
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    tcp = struct.pack('!HHIIBBHHH', source_port, target_port, sequence, 0, 0x50, RST, 0, 0, 0)
    tcp = tcp[:16] + struct.pack('!H', checksum(ends + struct.pack('!HH', TCP, len(tcp)) + tcp)) + tcp[18:]
    ip = struct.pack('!BBHHHBBH', 0x45, 0, 40, 0, 0, 64, TCP, 0) + ends
    return ip[:10] + struct.pack('!H', checksum(ip)) + ip[12:] + tcp


class Switch(threading.Thread):
    """Any thread may change `lines` and `black_holes`: each change is one assignment."""

    def __init__(self, dice, port):
        super().__init__(daemon=True)
        self.lines = {}          # (from, to): Line
        self.black_holes = {}    # any key: connections whose packets are lost, as a NAT that forgot them does
        self._traps = {}         # (from, to): connections, function
        self._dice, self._port = dice, port
        self._devices = {}       # by address
        self._connections = {}   # (from, port, to, port): the next sequence number
        self._late = []
        self._count = 0
        self._poll = select.epoll()

    def add(self, address, device):
        self._devices[address] = device
        self._poll.register(device, select.EPOLLIN)

    def addresses(self):
        return list(self._devices)

    def connections(self, address):
        """Those of the host at the job's port, each direction apart."""
        return [c for c in list(self._connections) if address in (c[0], c[2]) and self._port in (c[1], c[3])]

    def set_trap(self, source, target, function):
        """When `source` sends data from the job's port on a new connection, this thread calls `function`, once."""
        self._traps[source, target] = (set(self._connections), function)

    def remove_trap(self, source, target):
        self._traps.pop((source, target), None)

    def reset(self, connections):
        """A reset for the receiver of each direction, from its other end as far as it can tell."""
        for source, source_port, target, target_port in connections:
            sequence = self._connections.get((source, source_port, target, target_port))
            if sequence is not None:
                self._write(target, reset_packet(source, source_port, target, target_port, sequence))

    def run(self):
        while True:
            wait = max(0, self._late[0][0] - time.monotonic()) if self._late else -1
            for device, _ in self._poll.poll(wait):
                self._read(device)
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, target, packet = heapq.heappop(self._late)
                self._write(target, packet)

    def _read(self, device):
        try:
            for _ in range(64):
                self._forward(os.read(device, 65536))
        except BlockingIOError:
            pass

    def _forward(self, packet):
        if packet[0] >> 4 != 4:
            return
        source, target = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
        line = self.lines.get((source, target))
        if target not in self._devices or (line and self._dice.random() < line.loss):
            return
        if packet[9] == TCP and self._follow(source, target, packet):
            return
        if line and line.delay + line.jitter > 0:
            self._count += 1
            due = time.monotonic() + line.delay + self._dice.random() * line.jitter
            heapq.heappush(self._late, (due, self._count, target, packet))
        else:
            self._write(target, packet)

    def _follow(self, source, target, packet):
        """True: the packet is lost in a black hole."""
        start = (packet[0] & 15) * 4
        source_port, target_port, sequence, _, offset, flags = HEADERS.unpack_from(packet, start)
        connection = (source, source_port, target, target_port)
        if any(connection in lost for lost in list(self.black_holes.values())):
            return True
        data = len(packet) - start - (offset >> 4) * 4
        if flags & (RST | FIN):
            self._connections.pop(connection, None)
        else:
            self._connections[connection] = (sequence + data + bool(flags & SYN)) & 0xFFFFFFFF
        if data > 0 and source_port == self._port:
            self._spring(connection)
        return False

    def _spring(self, connection):
        trap = self._traps.get((connection[0], connection[2]))
        if trap and connection not in trap[0]:
            self.remove_trap(connection[0], connection[2])
            trap[1]()

    def _write(self, target, packet):
        try:
            os.write(self._devices[target], packet)
        except OSError:
            pass  # its queue is full: lost, as in any network
