# SPDX-License-Identifier: Apache-2.0
"""One job of four ranks, two on each of two nodes or all on one, under one launcher."""
import ctypes
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'chaos'))
import hosts  # noqa: E402

from failure import GUILTY, Unfit  # noqa: E402
from launchers import LAUNCHERS, interop, torch_worker  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
PORT = 29500
OTHER_SERVER = f'''
import http.server, sys
server = http.server.ThreadingHTTPServer((sys.argv[1], {PORT}), http.server.SimpleHTTPRequestHandler)
print('serving', flush=True)
server.serve_forever()
'''
HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE = 120  # seconds: only ends what hangs
PATIENCE = 40   # with a launcher that may never say it
LAST_WORDS = 10  # until the other nodes of such a launcher have ended


def children(pid):
    try:
        tasks = os.listdir(f'/proc/{pid}/task')
        return [int(child) for task in tasks for child in
                open(f'/proc/{pid}/task/{task}/children', encoding='ascii').read().split()]
    except OSError:
        return []


def descendants(pid):
    """Parents before their children."""
    found = []
    for child in children(pid):
        found += [child] + descendants(child)
    return found


def network_of(pid):
    try:
        return os.stat(f'/proc/{pid}/ns/net').st_ino
    except OSError:
        return None


def path_variable(has_py_spy):
    """PATH with py-spy, or without."""
    folders = [each for each in os.environ['PATH'].split(':') if not os.path.exists(each + '/py-spy')]
    return ':'.join(folders + [interop() + '/bin'] * has_py_spy)


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Job:
    def __init__(self, launcher, nodes):
        self.launcher, self.nodes = LAUNCHERS[launcher], nodes
        self.folder = tempfile.mkdtemp(prefix='ddprun-failure-')
        self.environment = dict(os.environ, FAILURES_RANK=str(GUILTY), FAILURES_FOLDER=self.folder,
                                PYTHONUNBUFFERED='1', DDPRUN_LOG_FORMAT='plain', XDG_RUNTIME_DIR=f'{self.folder}/runtime',
                                PATH=path_variable(self.launcher.has_py_spy))
        os.mkdir(f'{self.folder}/runtime', mode=0o700)
        self.processes = {}   # by node
        self._pids = {}       # of the launchers, by node
        self.local_size = str(4 // nodes)
        self.endpoint = ''    # another host's name: there is no such host
        self.groups = {}      # by node: the control group of its processes
        self._undo = []
        self._network = self._hosts = None
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if nodes == 2:
            try:
                self._make_hosts()
            except Unfit:
                self.clean_up()
                raise

    def _make_hosts(self):
        if os.geteuid() != 0 or not os.path.exists('/dev/net/tun'):
            raise Unfit('hosts of their own need root and /dev/net/tun')
        try:
            hosts.private_mounts()
            self._network = hosts.Network(0)
            self._hosts = {node: self._network.host(self.host_name(node)) for node in (1, 2)}
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unfit(f'no hosts of their own: {error}') from error
        names = ''.join(f'{host.address} {host.name}\n' for host in self._hosts.values())
        path = self.write('hosts', '127.0.0.1 localhost\n' + names)
        subprocess.run(['mount', '--bind', path, '/etc/hosts'], check=True)

    # Places.

    def host_name(self, node):
        return f'gpu-{node:02}' if self.nodes == 2 else socket.gethostname()

    def names_of(self, node):
        """By which people know the host of a node."""
        return [self.host_name(node)] + ([self._hosts[node].address] if self._hosts else [])

    def host_namespace(self, node):
        return f'/proc/{os.getpid()}/fd/{self._hosts[node]._namespace}'

    @property
    def last_node(self):
        """That of the guilty rank."""
        return self.nodes

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def worker(self, action):
        """The program that each rank runs: the guilty one does `action`."""
        return self.ddp(action) if self.launcher.trains else [sys.executable, os.path.join(HERE, 'worker.py'), action]

    def collective(self, action):
        """The same, in the library that is at home with this launcher."""
        return self.launcher.collective_worker(HERE) + [action]

    def ddp(self, action):
        """The program that trains with PyTorch's DDP: the guilty rank does `action`."""
        worker = self.launcher.collective_worker if self.launcher.trains else torch_worker
        return worker(HERE) + [action]

    def cgroup(self, controller, settings):
        """A control group of version 1; the path of its list of processes."""
        folder = f'/sys/fs/cgroup/{controller}/ddprun-failure-{os.getpid()}'
        try:
            os.mkdir(folder)
            self._undo.append(lambda: os.rmdir(folder))
            for name, value in settings.items():
                with open(f'{folder}/{name}', 'w', encoding='ascii') as file:
                    file.write(str(value))
        except OSError as error:
            raise Unfit(f'no control group: {error}') from error
        return f'{folder}/cgroup.procs'

    def fake_driver(self):
        """For the processes of this job /dev has what the driver of NVIDIA's GPUs makes there."""
        if os.geteuid() != 0:
            raise Unfit('a /dev of its own needs root')
        if self._hosts is None:
            hosts.private_mounts()
        folder = os.path.join(self.folder, 'dev')
        os.mkdir(folder)
        mounts = ['/dev']
        for name in ('null', 'zero', 'full', 'random', 'urandom', 'tty'):
            open(f'{folder}/{name}', 'wb').close()
            subprocess.run(['mount', '--bind', f'/dev/{name}', f'{folder}/{name}'], check=True)
            mounts.append(f'{folder}/{name}')
        open(f'{folder}/nvidiactl', 'wb').close()
        subprocess.run(['mount', '--rbind', folder, '/dev'], check=True)
        self._undo.append(lambda: subprocess.run(['umount', '-l', *mounts], check=False))

    def small_disk(self):
        path = os.path.join(self.folder, 'disk')
        os.mkdir(path)
        if self._hosts is None:
            if os.geteuid() != 0:
                raise Unfit('a disk of its own needs root')
            hosts.private_mounts()
        if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1M', 'tmpfs', path], check=False).returncode:
            raise Unfit('no disk of its own')
        self._undo.append(lambda: subprocess.run(['umount', '-l', path], check=False))
        return path

    # The job.

    def start(self, command, options=None, node_options=None, nodes=None, environment=None):
        """`options` by launcher; `node_options` of ddprun by node, `environment` by node."""
        for node in nodes or self.launcher.start_nodes(self.nodes):
            words = [*(options or {}).get(self.launcher.kind, []), *(node_options or {}).get(node, [])]
            line = self.launcher.command(self, node, command, words)
            self._spawn(node, line, (environment or {}).get(node, {}))
            self._pids[node] = self.processes[node].pid

    def _spawn(self, node, line, environment):
        cgroup = self.groups.get(node)
        host = self._hosts[node] if self._hosts else None

        def prepare():
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)[1:] * 2)
            if cgroup:
                with open(cgroup, 'w', encoding='ascii') as file:
                    file.write('0')
            if host:
                host.enter()

        with open(self._console(node), 'ab') as console:
            self.processes[node] = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=console, stderr=console, preexec_fn=prepare, cwd=self.folder,
                env=dict(self.environment, **environment))

    def doctor(self, environment):
        """ddprun's look at both nodes, in place of a job."""
        for node in (1, 2):
            line = self.launcher.command(self, node, [], [])
            self._spawn(node, [line[0], 'doctor', *line[1:]], environment.get(node, {}))
        self.finish()

    def says(self, words):
        """Whether the launcher, when it is asked for the job's state, says `words`."""
        if self.launcher.kind == 'ddprun':
            self.run_on(1, [os.environ['DDPRUN'], 'status', str(self._pids[1])]).wait()
        return any(re.search(words, text) for text in self.consoles().values())

    def run_on(self, node, line):
        """Another command, on the host of a node and its console."""
        self._spawn(node, line, {})
        return self.processes[node]

    def take_port(self):
        """By another program on the first host."""
        self.run_on(1, [sys.executable, '-c', OTHER_SERVER, self.names_of(1)[-1]])
        self.wait_for_words('serving')

    def run(self, command, options=None, **where):
        self.start(command, options, **where)
        self.finish()

    def finish(self):
        """What a launcher has said when it does not end counts, too."""
        ended = [lambda process=each: process.poll() is not None for each in self.processes.values()]
        if self.launcher.kind == 'ddprun':
            self.wait_until(lambda: all(each() for each in ended))
        elif self.wait_until(lambda: any(each() for each in ended), DEADLINE):
            self.wait_until(lambda: all(each() for each in ended), LAST_WORDS)

    def _console(self, node):
        return os.path.join(self.folder, f'console-{node}')

    def consoles(self):
        texts = {}
        for node in sorted(self.processes):
            with open(self._console(node), encoding='utf-8', errors='replace') as file:
                texts[node] = file.read()
        return texts

    def wait_until(self, condition, seconds=0):
        """False: it did not come to that."""
        patience = DEADLINE if self.launcher.kind == 'ddprun' else PATIENCE
        end = time.monotonic() + (seconds or patience)
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def wait_for_words(self, pattern):
        """A launcher that never says them is silent, which is its score."""
        said = re.compile(pattern, re.IGNORECASE)
        return self.wait_until(lambda: any(said.search(text) for text in self.consoles().values()) or
                               all(each.poll() is not None for each in self.processes.values()))

    def wait_for_ranks(self, ranks=range(4)):
        """Until the workers have said, by a file each, that they run; their pids."""
        paths = [os.path.join(self.folder, f'rank-{rank}') for rank in ranks]
        if not self.wait_until(lambda: all(os.path.exists(path) for path in paths), DEADLINE):
            raise RuntimeError(f'the ranks did not start: {self.consoles()}')
        return [int(open(path, encoding='ascii').read()) for path in paths]

    def unplug(self, node):
        address = self._hosts[node].address
        from switch import Line
        for other in self._network.switch.addresses():
            self._network.switch.lines[address, other] = Line(loss=1)
            self._network.switch.lines[other, address] = Line(loss=1)

    def kill(self, node):
        """All processes of its host at once, as when it dies."""
        network = os.stat(self.host_namespace(node)).st_ino
        signal_all([pid for pid in descendants(os.getpid()) if network_of(pid) == network], signal.SIGKILL)

    def clean_up(self):
        self.processes_left(signal.SIGTERM)
        self.wait_until(lambda: not children(os.getpid()) or self._reap(), 5)
        while self.processes_left(signal.SIGKILL):
            self._reap()
        for undo in reversed(self._undo):
            undo()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _reap(self):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        return False

    @staticmethod
    def processes_left(number):
        left = descendants(os.getpid())
        signal_all(left, signal.SIGCONT)
        signal_all(left, number)
        return left
