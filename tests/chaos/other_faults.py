# SPDX-License-Identifier: Apache-2.0
"""Faults of disks, consoles and limits, and strangers at the job's port."""
import os
import re
import resource
import struct
import subprocess

from faults import explain, fault, some_life
from process_faults import LONG, SHORT, stop_reading

MANY = 20  # connections of a stranger
FRAMES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../rendezvous/wire/control_frames.h')


def protocol_version():
    with open(FRAMES) as header:
        return int(re.search(r'kProtocolVersion = (\d+);', header.read())[1])


PROTOCOL_VERSION = protocol_version()


@fault()
def console_stalls(job, dice):
    life = some_life(job, dice)
    return life and stop_reading(job, life, dice.choice(SHORT + LONG))


@fault(logs=('memory', 'disk'))
def log_disk_full(job, dice):
    if job.disk_stalls or job.disk_full:
        return None
    path, seconds = os.path.join(job.log_dir, 'full'), dice.choice((1.0, 3.0))
    subprocess.run(['dd', 'if=/dev/zero', f'of={path}', 'bs=64k'], stderr=subprocess.DEVNULL, check=False)
    job.disk_full = True

    def make_space():
        os.remove(path)
        job.disk_full = False
    job.later(seconds, 'the disk of --log_dir has space again', make_space)
    return f'the disk of --log_dir is full for {seconds} s'


@fault(logs=('disk',))
def log_disk_stalls(job, dice):
    """The helper thaws the disk when its input ends, also if this process is killed."""
    if job.disk_stalls or job.disk_full:
        return None
    seconds = dice.choice(SHORT + LONG)
    helper = subprocess.Popen(['sh', '-c', 'fsfreeze -f "$0" && echo && read x; fsfreeze -u "$0"', job.log_dir],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    helper.stdout.readline()
    job.disk_stalls = True

    def thaw():
        helper.communicate()
        job.disk_stalls = False
    job.later(seconds, 'the disk of --log_dir goes on', thaw)
    return f'the disk of --log_dir stalls for {seconds} s'


def exchange_limit(pid, kind, next_limit):
    """The limit before; None: the process has ended."""
    try:
        before = resource.prlimit(pid, kind)
        resource.prlimit(pid, kind, next_limit(before))
        return before
    except ProcessLookupError:
        return None


def _limit(job, life, kind, limit, seconds, what):
    agent = life.agent()
    if (agent, kind) in job.limited:  # or it would get the tighter one back for good
        return None
    before = agent is not None and life.runs(agent) and exchange_limit(agent, kind, lambda old: (limit, old[1]))
    if not before:
        return None
    explain(life, 125, 126, mark='starved')
    job.limited.add((agent, kind))

    def give_back():
        job.limited.remove((agent, kind))
        if life.runs(agent):
            exchange_limit(agent, kind, lambda _: before)
    job.later(seconds, f'the agent of {life.name} gets its limit back', give_back)
    return f'the agent of {life.name} gets no more {what} for {seconds} s'


@fault(restarts=True)
def no_descriptors(job, dice):
    life, more = some_life(job, dice), dice.choice((0, 1, 5))
    if not life or not life.agent():
        return None
    try:
        used = max(map(int, os.listdir(f'/proc/{life.agent()}/fd'))) + 1
    except (OSError, ValueError):
        return None
    return _limit(job, life, resource.RLIMIT_NOFILE, used + more, dice.choice((1.0, 3.0)), 'descriptors')


@fault(restarts=True)
def no_memory(job, dice):
    life = some_life(job, dice)
    if not life or not life.agent():
        return None
    try:
        with open(f'/proc/{life.agent()}/statm') as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return None
    explain(life, 134)
    return _limit(job, life, resource.RLIMIT_AS, used + dice.choice((0, 1 << 20)), dice.choice((0.5, 2.0)),
                  'memory')


def _visit(job, dice, message, what):
    """Connections of a stranger that send `message` and are kept for a while, without being read."""
    lines = [job.stranger.connect(job.master_host.address) for _ in range(MANY)]
    seconds = dice.choice((1.0, 3.0, 6.0))

    def speak():
        for line in lines:
            try:
                line.send(message)
            except OSError:
                pass  # refused, or closed by the master, which is its right

    job.later(0.3, f'they send {len(message)} bytes each', speak)
    job.later(0.3 + seconds, 'they are closed', lambda: [line.close() for line in lines])
    return f'{MANY} connections of a stranger: {what}'


@fault()
def silent_strangers(job, dice):
    return _visit(job, dice, b'', 'silent')


@fault()
def garbage(job, dice):
    return _visit(job, dice, dice.randbytes(dice.choice((1, 100, 100_000))), 'random bytes')


@fault()
def half_frames(job, dice):
    # An older version, and a message that is too long, are refused before the frame is collected.
    version, size = dice.choice(((PROTOCOL_VERSION, 16_000), (PROTOCOL_VERSION - 1, 16_000), (PROTOCOL_VERSION, 200_000)))
    frame = b'ddprun' + struct.pack('!HI', version, size)
    return _visit(job, dice, frame + b'{"type":"hello",' + b' ' * dice.choice((0, 12_000)), 'half a frame')


@fault()
def half_greeting(job, dice):
    return _visit(job, dice, b'ddprun'[:dice.choice((1, 3, 6))], 'a part of a greeting')


def _store_request(kind, *texts):
    return bytes([kind]) + b''.join(struct.pack('<Q', len(text)) + text for text in texts)


STORE_GREETING = b'\x00\xce\xf7\x85\x3c'


@fault()
def store_readers_that_never_read(job, dice):
    requests = _store_request(1, b'stranger', b'x' * 20_000) + _store_request(3, b'stranger') * 500
    return _visit(job, dice, STORE_GREETING + requests, 'readers of the store that never read')


@fault()
def half_store_requests(job, dice):
    request = STORE_GREETING + b'\x01' + struct.pack('<Q', dice.choice((8, 1 << 20, 1 << 60))) + b'half'
    return _visit(job, dice, request, 'half a request to the store')


def _other_job(job, changes, what):
    options = job.options()
    for name, value in changes.items():
        options[options.index(name) + 1] = value
    life = job.begin_life(job.stranger, [job.ddprun] + options + ['sleep', '60'])
    explain(life, 2)
    job.foreign.append(life)

    def give_up():  # the master was not there to refuse it
        if life.send(life.process.pid, 15):
            explain(life, 143)
    job.later(8.0, f'{life.name} is given up if it still waits', give_up)
    return f'{life.name}: {what}'


@fault()
def second_job(job, dice):
    return _other_job(job, {'--rdzv_id': 'other'}, 'a node of another job')


@fault()
def node_with_other_nnodes(job, dice):
    return _other_job(job, {'--nnodes': '17'}, 'a node with another --nnodes')
