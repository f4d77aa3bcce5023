# SPDX-License-Identifier: Apache-2.0
"""One job on several hosts, what is done to it, and what of that has to be undone later."""
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass, field

import faults
import hosts
import stamps
from life import Life, marked_processes, send

LEASE = 4.0
JOIN_TIMEOUT = 600


@dataclass(frozen=True)
class Plan:
    """What a seed decides before anything runs."""
    seed: int
    nodes: int        # hosts with workers, at first
    least: int        # MIN of --nnodes
    workers: int      # per node
    serve: bool       # the rendezvous is a process of its own
    logs: str         # '', 'memory' or 'disk': the file system of --log_dir
    restarts: int
    fails: bool       # it ends by failures instead of success
    lines: int        # a step, on each stream of each worker
    pace: float       # seconds between two faults, about
    secret: bool      # --secret_file
    clocks: tuple     # how many seconds each host's clocks are off
    faults: tuple = field(repr=False)


def make_plan(seed, count, only):
    dice = random.Random(f'{seed} plan')
    nodes = dice.choice((2, 2, 3, 3, 4, 5))
    fails = dice.random() < 0.2
    logs = dice.choice(('', 'memory', 'disk', 'disk'))
    if any(faults.FAULTS[name].logs for name in only):
        logs = 'disk'
    return Plan(seed, nodes, least=nodes - dice.choice((0, 1, 1, 1)),
                workers=1 if nodes > 3 else dice.choice((1, 2)), serve=dice.random() < 0.3, logs=logs,
                restarts=3 if fails else 100_000, fails=fails, lines=dice.choice((2, 10, 50)),
                pace=random.Random(f'{seed} pace').choices((0.75, 0.25, 0.08), (6, 3, 1))[0],
                secret=random.Random(f'{seed} secret').random() < 0.3,
                clocks=tuple(dice.choice((0, 0, 0, 5000, 90000)) for _ in range(nodes + 1)),
                faults=tuple(faults.choose(seed, index, logs, fails, only) for index in range(count)))


class Job:
    def __init__(self, plan, ddprun, worker):
        self.plan, self.ddprun, self._worker = plan, ddprun, worker
        self.began = time.monotonic()
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix='ddprun-chaos-', dir='/dev/shm')
        self.stamps = self._make_folder('stamps')
        self.finish_file = os.path.join(self.folder, 'finish')
        self.history = []         # lines of the report
        self.lives = []           # all that ever were
        self.foreign = []         # lives of other jobs
        self._undo = []           # (when, what, function)
        self._rebirths = {}       # host: when
        self._signalled = {}      # names of the signals that each process was sent
        self.disk_stalls = self.disk_full = False
        self.limited = set()      # agents that have less of what, for a while
        self.starved = False      # the machine was too busy for the time limits of agents
        self.longest_wait = 0.0   # seconds that this process got no processor
        self.network = hosts.Network(plan.seed)
        self.hosts = [self.network.host(f'node{i + 1}', plan.clocks[i]) for i in range(plan.nodes)]
        self.master_host = self.network.host('login') if plan.serve else self.hosts[0]
        self.spare_host = self.network.host('spare', plan.clocks[-1])
        self.stranger = self.network.host('stranger')
        self.log_dir = self._mount_logs()
        self.secret_file = self._make_secret()

    def _make_folder(self, name):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        return path

    def _mount_logs(self):
        if not self.plan.logs:
            return None
        path = self._make_folder('logs')
        if self.plan.logs == 'memory':
            subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64m', 'none', path], check=True)
            return path
        image = os.path.join(self.folder, 'disk')
        subprocess.run(['truncate', '-s', '64M', image], check=True)
        subprocess.run(['mkfs.ext4', '-q', '-O', '^has_journal', image], check=True)
        subprocess.run(['mount', '-o', 'loop', image, path], check=True)
        return path

    def _make_secret(self):
        if not self.plan.secret:
            return None
        path = os.path.join(self.folder, 'secret')
        subprocess.run([self.ddprun, 'secret', path], check=True)
        return path

    def note(self, text):
        self.history.append(f'{time.monotonic() - self.began:6.2f} s  {text}')

    # Lives

    def options(self):
        plan = self.plan
        nodes = str(plan.nodes) if plan.least == plan.nodes else f'{plan.least}:{plan.nodes}'
        secret = ['--secret_file', self.secret_file] if plan.secret else []
        return secret + ['--nnodes', nodes, '--rdzv_endpoint', self.master_host.address, '--rdzv_id', self.mark[:12],
                '--lease', str(LEASE), '--heartbeat_interval', '0.5', '--last_call_timeout', '1',
                '--join_timeout', str(JOIN_TIMEOUT), '--max_restarts', str(plan.restarts)]

    def command(self, host):
        if self.plan.serve and host is self.master_host:
            return [self.ddprun, 'serve'] + self.options()
        logs = ['--log_dir', self.log_dir, '--tee', '3'] if self.log_dir else []
        preloads = ['--preload', 'json', os.path.join(os.path.dirname(os.path.abspath(__file__)), 'forked_worker.py')]
        worker = preloads if 'CHAOS_PRELOAD' in os.environ else [self._worker]
        return ([self.ddprun] + self.options() + logs +
                ['--nproc_per_node', str(self.plan.workers), '--shutdown_timeout', '2'] + worker)

    def start(self, host):
        self.lives.append(self.begin_life(host, self.command(host)))
        if self.disk_full:
            self.lives[-1].codes.add(2)
        return self.lives[-1]

    def begin_life(self, host, command):
        number = len(self.lives) + len(self.foreign)
        environment = {'CHAOS_STAMPS': self.stamps, 'CHAOS_FINISH': self.finish_file,
                       'CHAOS_STATE': os.path.join(self.folder, 'state'), 'CHAOS_LINES': str(self.plan.lines),
                       'CHAOS_PROGRAM': self._worker}
        return Life(f'{host.name}-{number}', host, self.folder, self.mark, command, environment)

    def start_all(self):
        for host in {self.master_host: 0} | dict.fromkeys(self.hosts):
            self.start(host)

    def alive(self):
        return [life for life in self.lives if not life.ended()]

    def nodes(self):
        """Lives that have or want workers."""
        return [life for life in self.alive() if not self.is_server(life)]

    def is_server(self, life):
        return self.plan.serve and life.host is self.master_host

    def master(self):
        return next((life for life in self.alive() if life.host is self.master_host), None)

    def over(self):
        return any(life.outcome() for life in self.lives)

    def was_in_last_round(self, life):
        """Whether it may have been: no other node had its place, and nobody else's round began later."""
        ended = [other.last_round() for other in self.lives if other.outcome() and other.last_round()]
        own = life.last_round()
        if own is None or not ended:
            return own is not None
        number = max(ended, key=lambda event: event['wall_ns'])['round']
        taken = [event['node_rank'] for event in ended if event['round'] == number]
        return own['round'] == number and own['node_rank'] not in taken

    def had_no_place(self, life):
        """A job of a fixed size has none for a node while spares have taken them all."""
        spares = any(other.host is self.spare_host for other in self.lives)
        return self.plan.least == self.plan.nodes and spares and life.round() < 0

    def revive(self, dice, at_once=False):
        """Starts ddprun again on hosts where it has ended, after a while. Not while a disk stalls: a process that
        was killed in a write keeps its port until then, and the new one would not host the rendezvous."""
        if self.over() or self.disk_stalls:
            return
        used = [life.host for life in self.alive()]
        for host in [self.master_host] + self.hosts:
            if host in used:
                continue
            due = self._rebirths.setdefault(host, time.monotonic() + dice.choice((0.1, 0.5, 2, 5.5)))
            if at_once or time.monotonic() >= due:
                del self._rebirths[host]
                self.note(f'{self.start(host).name} starts')
                used.append(host)

    # Faults

    def later(self, seconds, what, undo):
        self._undo.append((time.monotonic() + seconds, what, undo))

    def healed(self):
        return not self._undo

    def undo(self, everything=False):
        due = [entry for entry in self._undo if everything or entry[0] <= time.monotonic()]
        self._undo = [entry for entry in self._undo if entry not in due]
        for _, what, undo in sorted(due, key=lambda entry: entry[0]):
            undo()
            self.note(what)
        if everything and self._undo:  # what the second part of a fault left
            self.undo(everything)

    def signal(self, life, pid, number):
        sent = life.send(pid, number)
        if sent:
            self._signalled.setdefault(pid, set()).add(signal.Signals(number).name)
        return sent

    def did_fail(self, pid, stamp, status):
        """Whether the worker ended like this because of itself or of a fault. One that was killed before it had begun
        has no stamp."""
        if stamp and status == f'exit {stamp.exit_code}' and stamp.exit_code > 0:
            return True
        return any(f'killed by {name}' in status for name in self._signalled.get(pid, ()))

    def tell(self, life, pid, command):
        return stamps.command(self.stamps, life.name, pid, command)

    # The end

    def rounds(self):
        return {(life.name, event['pid']): event['round']
                for life in self.lives for event in life.of_kind('worker_started')}

    def read_stamps(self):
        clocks = {life.name: life.clock_offset for life in self.lives + self.foreign}
        return stamps.read(self.stamps, self.rounds(), clocks)

    def survivors(self):
        return list(marked_processes(self.mark))

    def close(self):
        self.undo(everything=True)
        for pid in self.survivors():
            send(pid, self.mark, signal.SIGKILL)
        for life in self.lives + self.foreign:
            for console in life.consoles:
                console.reads.set()
            life.process.wait()
        if self.log_dir:
            subprocess.run(['umount', '-l', self.log_dir], check=False)

    def keep(self, target):
        shutil.copytree(self.folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns('disk', '*.tmp'))

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
