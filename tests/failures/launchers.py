# SPDX-License-Identifier: Apache-2.0
"""How each launcher starts the four ranks of a job."""
import glob
import os
import shutil
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')


def interop():
    """The environment with PyTorch; empty: there is none."""
    found = subprocess.run([os.path.join(ROOT, 'scripts/interop-env'), '--where'], capture_output=True,
                           text=True, check=False)
    return found.stdout.strip()


def torch_worker(folder):
    return [os.path.join(interop(), 'bin/python'), os.path.join(folder, 'ddp_worker.py')]


class Launcher:
    nodes = 2
    may_trace = True   # a process another one
    has_py_spy = True  # beside the interpreter, or in PATH
    has_torch = False  # it starts programs of PyTorch's here
    trains = False     # all that it starts here train with PyTorch's DDP
    python_path = ''   # for PYTHONPATH


class Ddprun(Launcher):
    name = kind = 'ddprun'
    has_py_spy = False
    quick = ['--heartbeat_interval', '0.5', '--lease', '4']  # how soon a lost host is one

    @staticmethod
    def missing():
        return '' if os.environ.get('DDPRUN') else 'DDPRUN does not name a ddprun'

    @staticmethod
    def start_nodes(nodes):
        return range(1, nodes + 1)

    def command(self, job, node, command, options):
        place = ['--nproc_per_node', job.local_size]
        if job.nodes == 2:
            place += ['--nnodes', '2', '--node_rank', str(node - 1),
                      '--rdzv_endpoint', f'{job.endpoint or job.host_name(1)}:29500', *self.quick]
        return [os.environ['DDPRUN'], *place, *options, *command]

    @staticmethod
    def collective_worker(_):
        return [os.environ['FAILURES_WORKER']]


class DdprunOneNode(Ddprun):
    name = 'ddprun, one node'
    nodes = 1


class DdprunNoPtrace(Ddprun):
    name = 'ddprun, no ptrace'
    may_trace = False


class DdprunPySpy(Ddprun):
    name = 'ddprun, py-spy'
    has_py_spy = True

    @staticmethod
    def missing():
        return DdprunWithTorch.missing()


class DdprunWithTorch(Ddprun):
    name = 'ddprun, PyTorch'
    has_py_spy = has_torch = trains = True

    @staticmethod
    def missing():
        return Ddprun.missing() or ('' if interop() else 'there is no PyTorch: scripts/setup --interop')

    @staticmethod
    def collective_worker(folder):
        return torch_worker(folder)


class DdprunTorchNoPySpy(DdprunWithTorch):
    name = 'ddprun, PyTorch, no py-spy'
    has_py_spy = False

    def command(self, job, node, command, options):
        job.environment['PYTHONPATH'] = ':'.join(glob.glob(interop() + '/lib/python*/site-packages'))
        return super().command(job, node, command, options)

    @staticmethod
    def collective_worker(folder):
        """The interpreter that the environment was made from, beside which there is none."""
        return [os.path.realpath(os.path.join(interop(), 'bin/python')), os.path.join(folder, 'ddp_worker.py')]


class DdprunTorchDdp(DdprunWithTorch):
    name = 'ddprun, PyTorch, ddp'
    python_path = os.path.join(os.path.dirname(os.path.realpath(os.environ.get('DDPRUN', ''))), '../python')

    @classmethod
    def missing(cls):
        lacking = '' if glob.glob(cls.python_path + '/ddp/_native*') else 'ddp for Python is not built'
        return DdprunWithTorch.missing() or lacking

    def command(self, job, node, command, options):
        job.environment.update(FAILURES_BACKEND='ddp', PYTHONPATH=self.python_path)
        return super().command(job, node, command, options)


class Torchrun(Launcher):
    name = kind = 'torchrun'
    has_torch = True

    @staticmethod
    def missing():
        return '' if interop() else 'there is no PyTorch: scripts/setup --interop'

    @staticmethod
    def start_nodes(nodes):
        return range(1, nodes + 1)

    @staticmethod
    def command(job, node, command, options):
        place = ['--nproc-per-node', job.local_size]
        if job.nodes == 1:
            place += ['--standalone']
        else:
            place += ['--nnodes', '2', '--rdzv-backend', 'c10d', '--rdzv-endpoint',
                      f'{job.endpoint or job.host_name(1)}:29500', '--rdzv-conf',
                      f'is_host={int(node == 1)},join_timeout=20']
        return [os.path.join(interop(), 'bin/torchrun'), *place, *options, '--no-python', *command]

    @staticmethod
    def collective_worker(folder):
        return torch_worker(folder)


class TorchrunWithTorch(Torchrun):
    name = 'torchrun, PyTorch'
    trains = True


class Mpirun(Launcher):
    name = kind = 'mpirun'

    @staticmethod
    def missing():
        return '' if shutil.which('mpirun') else 'there is no mpirun'

    @staticmethod
    def start_nodes(_):
        return [1]

    @staticmethod
    def command(job, _, command, options):
        place = ['--oversubscribe']
        if job.nodes == 2:
            place = ['--host', f'{job.host_name(1)}:2,{job.endpoint or job.host_name(2)}:2', '--mca', 'plm_rsh_agent',
                     job.write('rsh', Mpirun._rsh(job), 0o755), '--mca', 'oob_tcp_if_include', 'eth0', '--mca',
                     'btl_tcp_if_include', 'eth0', '-x', f'MASTER_ADDR={job.host_name(1)}']
        variables = [name for name in job.environment if name.startswith(('FAILURES_', 'PYTHON'))]
        passed = [word for name in variables for word in ('-x', name)]
        return ['mpirun', '--allow-run-as-root', '-np', '4', *place, *options, *passed, *command]

    @staticmethod
    def _rsh(job):
        """In place of ssh: enters the host's namespace."""
        cases = '\n'.join(f'  {job.host_name(node)}) ns={job.host_namespace(node)} ;;' for node in (1, 2))
        return ('#!/bin/sh\nhost=$1; shift\ncase $host in\n' + cases + '\n'
                '  *) echo "ssh: Could not resolve hostname $host: Name or service not known" >&2; exit 255 ;;\n'
                'esac\n'
                f'echo $$ >"{job.groups.get(2, "/dev/null")}"\n'
                'exec nsenter --net="$ns" unshare --uts sh -c "hostname $host; $*"\n')

    @staticmethod
    def collective_worker(folder):
        return torch_worker(folder)


LAUNCHERS = {each.name: each for each in (Ddprun(), DdprunOneNode(), DdprunNoPtrace(), DdprunPySpy(), DdprunWithTorch(),
                                          DdprunTorchNoPySpy(), DdprunTorchDdp(), Torchrun(), TorchrunWithTorch(),
                                          Mpirun())}
