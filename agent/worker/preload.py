# SPDX-License-Identifier: Apache-2.0
# The template of --preload: it imports modules, and forks a worker for each request of the agent.
#
#   python -u -c THIS MODULE,... WORD...
#
# WORD... are the words between "python -u" and the program's own arguments: SCRIPT, -m MODULE or -c CODE ...
# Its stdin is a socket to the agent; launcher/process/fork_template.h has the messages.


def _ddprun_template():
    import os
    import sys

    has_first_path = not getattr(sys.flags, "safe_path", False)
    if has_first_path:
        del sys.path[0]  # modules of the user may have the names of these
    import faulthandler
    import functools
    import gc
    import importlib.machinery
    import io
    import pkgutil
    import runpy
    import signal
    import socket
    import struct
    import traceback

    main = sys.modules["__main__"].__dict__
    modules, words = sys.argv[1].split(","), sys.argv[2:]
    agent = os.getppid()
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)

    def next_request():
        """The descriptors of a request, and of a worker's streams; None: the round has all its workers."""
        request, ancillary, _, _ = line.recvmsg(16, socket.CMSG_SPACE(16), getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        if not request:
            os._exit(0)  # the agent has ended
        if not ancillary:
            return None
        numbers = ancillary[0][2]
        return [int.from_bytes(numbers[at:at + 4], sys.byteorder) for at in range(0, len(numbers), 4)]

    def read_request(descriptor):
        """CPUs, the words of a command line, and an environment."""
        with open(descriptor, "rb") as request:
            request.seek(0)
            cpus, count, *rest = request.read().split(b"\0")[:-1]
        return [int(cpu) for cpu in cpus.split(b",") if cpu], rest[:int(count)], rest[int(count):]

    given = read_request(next_request()[0])[2]  # first: at our end an unread request would hide what we say

    def say(*fields):
        line.send("\0".join(fields).encode("utf-8", "replace"))

    def refuse(cause):
        say("refused", cause)
        os._exit(0)

    if sys.version_info < (3, 8):
        refuse("Python %d.%d is older than 3.8" % sys.version_info[:2])
    try:
        import ctypes
    except ImportError:
        refuse("this Python has no module ctypes")
    if not os.path.exists("/proc/%d/stat" % os.getpid()) or os.readlink("/proc/self") != str(os.getpid()):
        refuse("/proc does not show this process")
    with open("/proc/self/stat", "rb") as file:
        if len(file.read().rpartition(b")")[2].split()) < 48:  # as Linux 3.5 has them
            refuse("an emulator runs this Python")
    libc = ctypes.CDLL(None, use_errno=True)

    def prctl(option, *values):
        return libc.prctl(option, *[ctypes.c_ulong(value) for value in values + (0,) * (4 - len(values))])

    def set_command_line(command, environment):
        """What ps and /proc/self/environ show."""
        fields = open("/proc/self/stat", "rb").read().rpartition(b")")[2].split()
        code, end_code, stack = (int(fields[at]) for at in (23, 24, 25))
        data, end_data, begin_brk, begin, end = (int(fields[at]) for at in (42, 43, 44, 45, 46))
        shown = b"".join(word + b"\0" for word in command)
        text = ctypes.create_string_buffer(shown + b"".join(each + b"\0" for each in environment))
        set_command_line.text = text  # the kernel reads it from here
        at = ctypes.addressof(text)
        libc.sbrk.restype = ctypes.c_void_p
        PR_SET_MM, PR_SET_MM_MAP = 35, 14
        moved = struct.pack("=12QII", code, end_code, data, end_data, begin_brk, libc.sbrk(0), stack, at, at + len(shown),
                            at + len(shown), at + len(text) - 1, 0, 0, 0xFFFFFFFF)
        where = ctypes.create_string_buffer(moved, len(moved))
        if prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.addressof(where), len(moved)) != 0:
            ctypes.memmove(begin, shown[:end - begin - 1].ljust(end - begin, b"\0"), end - begin)

    def unfit():
        """Why workers may not be forked from here; empty: they may."""
        threads = len(os.listdir("/proc/self/task"))
        if threads > 1:
            return "%d threads run" % threads
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            return "CUDA is initialized"
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink("/proc/self/fd/" + name)
            except OSError:
                continue
            if target == "/dev/nvidia-uvm":
                return "CUDA is initialized"
            if target.startswith("socket:") and int(name) != line.fileno():
                return "a connection is open"
        return ""

    def variables_of(environment):
        variables = {}
        for variable in environment:
            name, is_set, value = variable.partition(b"=")
            if name and is_set:
                variables.setdefault(name, value)
        return variables

    before = variables_of(given)  # a script that executes python, and site, may change it
    with open("/proc/self/cmdline", "rb") as file:
        python = file.read().split(b"\0")
    python = python[:python.index(b"-c")]
    set_command_line([b"ddp-preload of %d" % agent], [b"=".join(each) for each in os.environb.items()])
    if has_first_path:
        first = {"-m": os.getcwd(), "-c": ""}
        sys.path.insert(0, first.get(words[0], os.path.dirname(os.path.realpath(words[0]))))
    thresholds = gc.get_threshold()
    gc.set_threshold(0)  # looking for garbage would take a tenth of the time
    for module in modules:
        try:
            __import__(module)
        except BaseException as error:
            trace = error.__traceback__.tb_next
            text = "".join(traceback.format_exception(type(error), error, trace))
            last = "".join(traceback.format_exception_only(type(error), error)).strip()
            say("failed", last[:1000], text[-16000:])
            os._exit(1)
        cause = unfit()
        if cause:
            refuse("after the import of %s %s" % (module, cause))
    after = dict(os.environb)
    imports_set = {name: value for name, value in after.items() if before.get(name) != value}
    imports_unset = before.keys() - after.keys()
    if gc.get_threshold()[0] == 0:  # no module has set it
        gc.set_threshold(*thresholds)
    collects = gc.isenabled()
    gc.disable()
    gc.freeze()  # or the collector would write to each object, which copies its page
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    def fork_workers(descriptors, tell_count):
        """Returns in each worker the descriptors of its request. Runs in a process of its own, which ends."""
        count = 0
        while descriptors is not None:
            try:
                worker = os.fork()
            except OSError as error:
                say("not_started", os.strerror(error.errno))
            else:
                if worker == 0:
                    return descriptors
                count += 1
                say("started", str(worker))
            for each in descriptors:
                os.close(each)
            descriptors = next_request()
        os.write(tell_count, b"%d" % count)
        os._exit(0)

    def serve_round():
        """Returns in a worker: the descriptors of its request, and that of `go`. Workers are forked twice, so that they
        become the agent's children."""
        descriptors = next_request()
        count_of_workers, tell_count = os.pipe()
        go, say_go = os.pipe()
        between = None
        try:
            between = os.fork() if descriptors is not None else None
        except OSError as error:
            say("not_started", os.strerror(error.errno))
        if between == 0:
            os.close(count_of_workers)
            os.close(say_go)
            descriptors = fork_workers(descriptors, tell_count)
            os.close(tell_count)
            line.close()
            return descriptors, go
        os.close(tell_count)
        os.close(go)
        if between is not None:
            os.waitpid(between, 0)
            count = os.read(count_of_workers, 32)
            if not count:
                os._exit(1)  # it was killed
            os.write(say_go, b"g" * int(count))
            say("done")
        elif descriptors is None:
            say("done")
        for each in [count_of_workers, say_go] + (descriptors or []):
            os.close(each)
        return None

    def unmap_libraries():
        """Gives back the pages that are as in a library's file. Each worker maps those that it needs."""
        MADV_DONTNEED = 4
        libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        if not os.path.exists("/proc/self/smaps"):
            return
        place, size = "", ""
        with open("/proc/self/smaps") as maps:
            for line in maps:
                name, *values = line.split()
                if not name.endswith(":"):
                    place = name if values[0] in ("r-xp", "r--p") and ".so" in values[-1] else ""
                elif name == "Rss:":
                    size = values[0]  # 0 for each: the kernel does not count, nor knows what was written to
                elif name == "Anonymous:" and values[0] != "0":
                    place = ""  # it was written to
                elif name == "Swap:" and values[0] == "0" and place and size != "0":  # nor is in the swap
                    begin, end = (int(each, 16) for each in place.split("-"))
                    libc.madvise(begin, end - begin, MADV_DONTNEED)

    def serve():
        forked = serve_round()
        if forked is None:
            unmap_libraries()
        while forked is None:
            forked = serve_round()
        return forked

    def reopen(descriptor, name, mode):
        """As Python opens its standard streams under -u."""
        old = getattr(sys, "__%s__" % name)
        if old is None or getattr(sys, name) is not old:
            return
        binary = io.open(descriptor, mode + "b", -1 if mode == "r" else 0, closefd=False)
        (binary.raw if mode == "r" else binary).name = "<%s>" % name
        new = io.TextIOWrapper(binary, old.encoding, old.errors, "\n", write_through=True)
        new.mode = mode
        setattr(sys, name, new)
        setattr(sys, "__%s__" % name, new)

    def set_environment(wanted):
        wanted.update(imports_set)
        for name in imports_unset:
            wanted.pop(name, None)
        for name in after:
            if name not in wanted:
                del os.environb[name]
        for name, value in wanted.items():
            if after.get(name) != value:
                os.environb[name] = value

    def set_threads(cpus):
        """OpenBLAS started none at its import; OpenMP counted the CPUs of the template."""
        torch = sys.modules.get("torch")
        if cpus and torch is not None:
            torch.set_num_threads(min(torch.get_num_threads(), len(cpus)))
        wanted = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
        count = int(wanted) if wanted.isdigit() else len(os.sched_getaffinity(0))
        with open("/proc/self/maps") as maps:
            libraries = {each.split()[-1] for each in maps if "openblas" in each}
        for library in libraries if count > 1 else ():
            for name in ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads",
                         "openblas_set_num_threads64_", "openblas_set_num_threads"):
                function = getattr(ctypes.CDLL(library), name, None)
                if function is not None:
                    function(count)
                    break

    def renew():
        """What processes that were started have each for itself."""
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()  # `random` does it itself
        if "multiprocessing.process" in sys.modules:
            sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
        if "threading" in sys.modules:
            thread = sys.modules["threading"].main_thread()
            getattr(thread, "_set_native_id", lambda: None)()
        if os.environ.get("PYTHONFAULTHANDLER"):
            if not faulthandler.is_enabled():
                faulthandler.enable()

    def become_worker(descriptors, go):
        os.setsid()
        for target in (0, 1, 2):
            os.dup2(descriptors[target + 1], target)
        cpus, command, environment = read_request(descriptors[0])
        for each in descriptors[1:]:
            os.close(each)
        for descriptor, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
            reopen(descriptor, name, "r" if descriptor == 0 else "w")
        try:
            if cpus:
                os.sched_setaffinity(0, cpus)
        except OSError as error:
            sys.exit("cannot bind the worker to its CPUs: " + error.strerror)
        command = python + command[2:]  # after python -u
        set_environment(variables_of(environment))
        set_command_line(command, environment)
        set_threads(cpus)
        renew()
        if collects:
            gc.enable()
        PR_SET_PDEATHSIG, PR_SET_PTRACER = 1, 0x59616D61
        told = os.read(go, 1)
        os.close(go)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # not before: its first parent has ended
        if not told or os.getppid() != agent:
            os._exit(1)
        prctl(PR_SET_PTRACER, agent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
        return [os.fsdecode(word) for word in command]

    def program_of(command):
        """Makes __main__ what it is in `command`, and returns the function that runs it."""
        for name in set(main) - {"__name__", "__builtins__", "__doc__", "__package__", "__loader__", "__spec__",
                                 "__annotations__"}:
            del main[name]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv = command
        sys.argv = command[len(python):]
        what, *rest = sys.argv
        if what == "-m":
            sys.argv = ["-m"] + rest[1:]
            return functools.partial(runpy._run_module_as_main, rest[0])
        if what == "-c":
            sys.argv = ["-c"] + rest[1:]
            return functools.partial(exec, compile(rest[0], "<string>", "exec", dont_inherit=True), main)
        if pkgutil.get_importer(what) is not None and (os.path.isdir(what) or not what.endswith(".py")):
            if has_first_path:
                del sys.path[0]
            sys.path.insert(0, what)  # a folder or a zip file
            return functools.partial(runpy._run_module_as_main, "__main__", False)
        if sys.version_info >= (3, 9) and not what.startswith("/"):
            what = os.getcwd() + "/" + what
        main["__file__"] = what
        if sys.version_info < (3, 15):
            main["__cached__"] = None
        main["__loader__"] = importlib.machinery.SourceFileLoader("__main__", what)
        with open(what, "rb") as file:
            code = compile(file.read(), what, "exec", dont_inherit=True)
        return functools.partial(exec, code, main)

    say("ready")
    return program_of(become_worker(*serve()))


try:
    _ddprun_template()()
except SystemExit:
    raise
except BaseException as _error:
    while _error.__traceback__ and _error.__traceback__.tb_frame.f_code.co_filename == "<string>":
        _error.__traceback__ = _error.__traceback__.tb_next
    __import__("sys").excepthook(type(_error), _error, _error.__traceback__)
    __import__("sys").excepthook = lambda *_: None
    raise
