# SPDX-License-Identifier: Apache-2.0
"""A life: one run of ddprun on a host. Its processes are known by a mark in their environment."""
import json
import os
import signal
import subprocess
import threading

MARK = 'DDPRUN_CHAOS'


def marked_processes(mark):
    """Those with `mark` in their environment; a zombie has none."""
    wanted = f'{MARK}={mark}'.encode()
    for name in os.listdir('/proc'):
        if name.isdigit() and wanted in _environment(int(name)):
            yield int(name)


def _command_line(pid):
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return file.read()
    except OSError:
        return b''


def _environment(pid):
    try:
        with open(f'/proc/{pid}/environ', 'rb') as file:
            return file.read().split(b'\0')
    except OSError:
        return []


def command_line(pid):
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            return file.read().replace(b'\0', b' ').decode(errors='replace')
    except OSError:
        return '(ended)'


def send(pid, mark, number):
    """Signals the process unless it has ended: a process id of somebody else's is never hit. False: ended."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not any(entry.startswith(f'{MARK}={mark}'.encode()) for entry in _environment(pid)):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


class Console(threading.Thread):
    """Reads one of ddprun's outputs into a file, except while it is told not to."""

    def __init__(self, pipe, path):
        super().__init__(daemon=True)
        self._pipe, self._path = pipe, path
        self.reads = threading.Event()
        self.reads.set()
        self.start()

    def run(self):
        with open(self._path, 'wb', buffering=0) as file:
            while data := os.read(self._pipe.fileno(), 65536):
                file.write(data)
                self.reads.wait()


class Life:
    def __init__(self, name, host, folder, mark, command, environment):
        self.name, self.host, self.mark = name, host, mark
        self.clock_offset = host.clock_offset  # later ones of this host may have another
        self.path = os.path.join(folder, name)
        self.codes = set()       # exit codes that the faults which it met explain
        self.marks = set()       # of these faults, for the checks
        self.events = []
        self._part = b''         # of a line of the events
        environment = dict(os.environ, **environment, CHAOS_LIFE=name, TMPDIR=self.path + '.tmp')
        environment[MARK] = mark
        os.mkdir(self.path + '.tmp')
        open(self.events_path, 'w').close()
        self._events_file = open(self.events_path, 'rb', buffering=0)  # read often
        self.process = subprocess.Popen(
            command[:1] + self._mode(command) + ['--events', self.events_path] + self._rest(command),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
            preexec_fn=host.enter, process_group=0)
        self.consoles = [Console(self.process.stdout, self.path + '.out'),
                         Console(self.process.stderr, self.path + '.err')]

    @staticmethod
    def _mode(command):
        return ['serve'] if command[1] == 'serve' else []

    @staticmethod
    def _rest(command):
        return command[2:] if command[1] == 'serve' else command[1:]

    @property
    def events_path(self):
        return self.path + '.events'

    def ended(self):
        return self.process.poll() is not None

    def read_events(self):
        if data := self._events_file.read():
            *whole, self._part = (self._part + data).split(b'\n')
            self.events += map(json.loads, whole)
        return self.events

    def of_kind(self, kind):
        return [event for event in self.read_events() if event['event'] == kind]

    def agent(self):
        """Its process id; None: not known yet."""
        events = self.read_events()
        return events[0]['agent_pid'] if events else None

    def last_round(self):
        """The event of its latest round; None: it was in none."""
        return next(reversed(self.of_kind('round_ready')), None)

    def round(self):
        """The number of its latest round; -1: it was in none. A new master that knows no older ones begins at 0."""
        last = self.last_round()
        return last['round'] if last else -1

    def workers(self):
        """(rank, pid) of those that run."""
        running = {}
        for event in self.read_events():
            if event['event'] == 'worker_started':
                running[event['pid']] = event['rank']
            elif event['event'] == 'worker_ended':
                running.pop(event['pid'], None)
        return sorted((rank, pid) for pid, rank in running.items())

    def outcome(self):
        """'succeeded' or 'worker_failed' if it knows that the job is over."""
        ends = [event['outcome'] for event in self.of_kind('job_ended')]
        return next((end for end in ends if end in ('succeeded', 'worker_failed')), None)

    def processes(self):
        """Of this life only."""
        own = f'CHAOS_LIFE={self.name}'.encode()
        return [pid for pid in marked_processes(self.mark) if own in _environment(pid)]

    def template(self):
        """The process of --preload; None: there is none."""
        return next((pid for pid in self.processes() if _command_line(pid).startswith(b'ddp-preload ')), None)

    def runs(self, pid):
        return pid in self.processes()

    def send(self, pid, number):
        return pid is not None and send(pid, self.mark, number)
