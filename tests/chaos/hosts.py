# SPDX-License-Identifier: Apache-2.0
"""Hosts: network namespaces without a name, which are gone when this process and theirs have ended.

Their only network device is a TUN device, whose packets `Switch` forwards. So a line can be cut, slowed or
reset without netem, iptables or conntrack, which small kernels lack.
"""
import ctypes
import fcntl
import os
import random
import signal
import socket
import struct
import subprocess

from switch import Switch

CLONE_NEWTIME, CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x80, 0x20000, 0x4000000, 0x40000000
PR_SET_PDEATHSIG = 1
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
MTU = 16000
PORT = 29500

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f'{what}: {os.strerror(ctypes.get_errno())}')


def unshare(flags):
    _checked(_libc.unshare(flags), 'unshare')


def _enter(namespace):
    _checked(_libc.setns(namespace, CLONE_NEWNET), 'setns')


def private_mounts():
    """What this process mounts from here on is seen by it and its children only."""
    unshare(CLONE_NEWNS)
    subprocess.run(['mount', '--make-rprivate', '/'], check=True)


def _open_tun():
    tun = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack('16sH22x', b'eth0', IFF_TUN | IFF_NO_PI))
    return tun


class Host:
    """A host with an address; `clock_offset` is by how many seconds its monotonic clocks differ."""

    def __init__(self, name, address, switch, clock_offset=0):
        self.name, self.address, self.clock_offset = name, address, clock_offset
        self._namespace = self._make_namespace(switch)

    def _make_namespace(self, switch):
        home = os.open('/proc/thread-self/ns/net', os.O_RDONLY)
        try:
            unshare(CLONE_NEWNET)
            switch.add(self.address, _open_tun())
            for command in (f'addr add {self.address}/24 dev eth0', f'link set eth0 mtu {MTU} up',
                            'link set lo up'):
                subprocess.run(['ip'] + command.split(), check=True)
            return os.open('/proc/thread-self/ns/net', os.O_RDONLY)
        finally:
            _enter(home)
            os.close(home)

    def namespace_path(self):
        """For nsenter --net, while this process lives."""
        return f'/proc/{os.getpid()}/fd/{self._namespace}'

    def enter(self):
        """For a process that is about to execute a program on this host, and dies with this one. It ignores no signal
        that this one ignores because it was started by nohup, or in the background."""
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        _checked(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), 'prctl')
        _enter(self._namespace)
        unshare(CLONE_NEWUTS)
        socket.sethostname(self.name)
        if self.clock_offset:
            unshare(CLONE_NEWTIME)
            with open('/proc/self/timens_offsets', 'w') as offsets:
                offsets.write(f'monotonic {self.clock_offset} 0\nboottime {self.clock_offset} 0\n')

    def connect(self, address, port=PORT):
        """A socket of this host that connects; whether it ever does is not waited for."""
        home = os.open('/proc/thread-self/ns/net', os.O_RDONLY)
        try:
            _enter(self._namespace)
            line = socket.socket()
        finally:
            _enter(home)
            os.close(home)
        line.setblocking(False)
        line.connect_ex((address, port))
        return line


class Network:
    def __init__(self, seed):
        self.switch = Switch(random.Random(f'{seed} network'), PORT)
        self.switch.start()
        self._hosts = 0

    def host(self, name, clock_offset=0):
        self._hosts += 1
        return Host(name, f'10.9.0.{self._hosts}', self.switch, clock_offset)
