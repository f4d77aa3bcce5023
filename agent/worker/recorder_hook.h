// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace ddprun::agent {

/// The sitecustomize.py of workers, with which they say where they are in PyTorch's flight
/// recorder.
inline constexpr std::string_view kRecorderHook =
    R"hook("""Lets ddprun read which collective calls a worker has made, from PyTorch's own flight recorder, when it asks.

ddprun puts the folder of this file in front of PYTHONPATH. The file takes it out again, runs the sitecustomize that the
user has, and waits until the program makes a process group. From then on a thread listens at the socket
DDPRUN_RECORDER_FOLDER/RANK, and answers each connection; a program that ends by an exception leaves the same answer in
DDPRUN_RECORDER_FOLDER/RANK.last.
"""
import os
import sys

RECENT = 16  # calls of a group in an answer
TIMED = 257  # of which it has the times
LIBRARIES = {'gloo': ('gloo',), 'nccl': ('nccl2', 'nccl-lazy')}  # the backends of each that record in one common way
SAME_SIZES = ('all_reduce', 'broadcast', 'reduce', '_allgather_base', '_all_gather_base', '_reduce_scatter_base',
              'all_gather_single', 'reduce_scatter_single', 'gloo:all_gather')  # on all ranks
place = os.environ.pop('DDPRUN_RECORDER_FOLDER', '')


def quietly(function, *arguments):
    """The program never fails by this: in another release of PyTorch ddprun does without."""
    try:
        function(*arguments)
    except Exception:
        pass


def shown(entry):
    name = entry['profiling_name'].rpartition(':')[2]
    count = 0
    for sizes in entry['input_sizes']:
        elements = 1
        for size in sizes:
            elements *= size
        count += elements
    types = ''.join(sorted({' ' + each for each in entry.get('input_dtypes', ()) if each != 'Float'}))
    is_same = name in SAME_SIZES or entry['profiling_name'] in SAME_SIZES
    what = f'[{count}{types}]' if count and is_same else ''
    return f'#{entry["collective_seq_id"]} {name}{what}'


def can_record(c10d):
    library = getattr(c10d.torch._C, '_distributed_c10d', None)
    return any(hasattr(library, name) for name in ('_dump_fr_trace_json', '_dump_nccl_trace_json', '_dump_nccl_trace'))


def recorded(c10d, library):
    """What PyTorch's recorders have of the calls of a library; each release has other functions."""
    import json
    import pickle
    found = c10d.torch._C._distributed_c10d
    common = getattr(found, '_dump_fr_trace_json', None)
    if library == 'nccl' and hasattr(found, '_dump_nccl_trace_json'):  # from 2.5
        yield json.loads(found._dump_nccl_trace_json(True, False))
    elif library == 'nccl' and hasattr(found, '_dump_nccl_trace'):
        yield pickle.loads(found._dump_nccl_trace(True, False, False))  # of this process itself
    for backend in LIBRARIES[library] if common else ():
        try:
            yield json.loads(common(True, False, backend))  # in later releases for each backend
        except TypeError:
            if backend == 'gloo':
                yield json.loads(common(True, False))


def turn_on(c10d):
    """Earlier releases record nothing by default. A recorder reads its size once, when it is first asked: now, as the
    program may have set it until now."""
    sizes = ('TORCH_FR_BUFFER_SIZE', 'TORCH_NCCL_TRACE_BUFFER_SIZE')
    if any(size in os.environ for size in sizes):
        return
    size = sizes[0] if hasattr(c10d.torch._C._distributed_c10d, '_dump_fr_trace_json') else sizes[1]
    os.environ[size] = '2000'
    try:
        for library in LIBRARIES:
            list(recorded(c10d, library))
    finally:
        del os.environ[size]


def groups_of(c10d):
    """(library, name) of each group that this rank is in, a number for it that is the same on all its ranks, and the
    number of these."""
    import zlib
    world, found = c10d._world, {}
    for group, members in list(world.pg_group_ranks.items()):
        name = world.pg_names.get(group)
        if name is not None:
            backends = c10d.get_backend_config(group)  # 'cpu:gloo,cuda:nccl'
            for library in LIBRARIES:
                if library in backends:
                    text = f'{library} {name} {sorted(members)}'
                    found[library, name] = 1 << 32 | zlib.crc32(text.encode()), len(members)
    return found


def is_open(call):
    """NCCL's own recorder retires a call that timed out, too; others know no state."""
    if call['profiling_name'].startswith('nccl:'):
        return call['state'] != 'completed'
    return not call['retired']


def ended_in_message():
    """Whether the exception that ends the program came from send or receive, which are not counted."""
    step, names = sys.last_traceback, []
    while step is not None:
        if step.tb_frame.f_code.co_filename.endswith('distributed_c10d.py'):
            names.append(step.tb_frame.f_code.co_name)
        step = step.tb_next
    return any('send' in name or 'recv' in name for name in names)


def calls_of(c10d, groups):
    """Of the groups whose calls this release records."""
    lists = {}
    for library in {library for library, _ in groups}:
        for dump in recorded(c10d, library):
            lists.update((key, lists.get(key, [])) for key in groups if key[0] == library)
            for entry in dump.get('entries', ()):
                calls = lists.get((library, entry['process_group'][0]))
                if calls is None or entry['is_p2p']:
                    continue
                if calls and entry['collective_seq_id'] < calls[-1]['collective_seq_id']:
                    calls.clear()  # of an earlier group of this name
                if calls and entry['collective_seq_id'] == calls[-1]['collective_seq_id']:
                    calls.pop()  # of the same coalesced call
                calls.append(entry)
    return lists


def times_of(calls):
    """In microseconds: when the first began, and from each one to the next."""
    times = [call.get('time_created_ns', 0) // 1000 for call in calls]
    return times[:1] + [after - before for before, after in zip(times, times[1:])]


def calls_of_ddp():
    """When the backend ddp began its last calls, from its own recorder. The rest is in its page, under the same number
    of the group: an FNV-1a of its name."""
    import json
    ddp = sys.modules.get('ddp')
    if ddp is None:
        return
    path = os.path.join(place, os.environ['RANK'] + '.trace')
    ddp.write_trace(path)
    with open(path, 'rb') as file:
        trace = json.load(file)
    os.unlink(path)
    for group in trace['groups']:
        number = 0xcbf29ce484222325
        for byte in group['name'].encode():
            number = (number ^ byte) * 0x100000001b3 % (1 << 64)
        calls = [call for call in trace['calls']
                 if call['group'] == group['group'] and 'peer' not in call and 'transfers' not in call]
        if calls:
            for call in calls:
                call['time_created_ns'] = int(call['begun'] * 1e9)
            yield {'group': number % (1 << 48), 'members': len(group['ranks']), 'begun': calls[-1]['number'], 'open': 0,
                   'recent': [], 'times': times_of(calls[-TIMED:])}


def answer(c10d, has_failed):
    import json
    waits = has_failed and not ended_in_message()
    groups = groups_of(c10d)
    lists = calls_of(c10d, groups)
    found = []
    for key, calls in (lists or {None: []}).items():  # without a group it still says its release
        number, members = groups.get(key, (1 << 32, 0))
        numbers = [call['collective_seq_id'] for call in calls if is_open(call)]
        begun = calls[-1]['collective_seq_id'] if calls else 0
        found.append({'group': number, 'members': members, 'begun': begun,
                      'open': numbers[0] if numbers else begun * waits, 'failed': has_failed,
                      'release': f'PyTorch {c10d.torch.__version__}',
                      'recent': [shown(call) for call in calls[-RECENT:]],
                      'times': times_of(calls[-TIMED:])})
    if not has_failed:
        quietly(lambda: found.__setitem__(slice(0), calls_of_ddp()))  # in front: the last one has the release
    return json.dumps(found).encode()


def answer_one(connection, c10d):
    with connection:
        connection.settimeout(1)
        connection.sendall(answer(c10d, False))


def serve(listener, c10d):
    while True:
        quietly(answer_one, listener.accept()[0], c10d)


def leave_answer(c10d):
    with open(os.path.join(place, os.environ['RANK'] + '.last'), 'wb') as file:
        file.write(answer(c10d, True))


def end(c10d, process):
    if hasattr(sys, 'last_value') and os.getpid() == process:  # an exception ends the program
        quietly(leave_answer, c10d)


def listen(c10d):
    import _thread
    import atexit
    import socket
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.join(place, os.environ['RANK']))  # which fails in a process that the worker has forked
    listener.listen(4)
    _thread.start_new_thread(quietly, (serve, listener, c10d))
    atexit.register(end, c10d, os.getpid())


class Watch:
    """Waits for the import of `name`, and for the first process group."""
    name = 'torch.distributed.distributed_c10d'

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != cls.name:
            return None
        sys.meta_path.remove(cls)
        spec = next((spec for spec in (finder.find_spec(name, path, target) for finder in sys.meta_path) if spec), None)
        if spec is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                quietly(cls.wrap, module)

            quietly(setattr, spec.loader, 'exec_module', exec_module)
        return spec

    @staticmethod
    def wrap(c10d):
        make = getattr(c10d, '_new_process_group_helper', None)
        if make is None or not can_record(c10d):
            return

        def make_and_listen(*arguments, **named):
            if c10d._new_process_group_helper is make_and_listen:
                c10d._new_process_group_helper = make
                quietly(turn_on, c10d)
                quietly(listen, c10d)
            return make(*arguments, **named)

        c10d._new_process_group_helper = make_and_listen


def start():
    here = os.path.dirname(__file__)
    inherited = os.environ.get('PYTHONPATH', '')
    if inherited.startswith(here):
        inherited = inherited[len(here) + 1:]
        os.environ.pop('PYTHONPATH')
        if inherited:
            os.environ['PYTHONPATH'] = inherited
    sys.path[:] = [folder for folder in sys.path if folder != here]
    sys.meta_path.insert(0, Watch)
    mine = sys.modules.pop(__name__)
    try:
        import sitecustomize  # noqa: F401 - the user's
    except ImportError as error:
        if error.name != 'sitecustomize':
            raise
    finally:
        sys.modules.setdefault(__name__, mine)


start()
)hook";

}  // namespace ddprun::agent
