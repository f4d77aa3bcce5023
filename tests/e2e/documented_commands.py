# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README and docs/ in the current folder: see documented_commands.sh. Prints what ran, and
for the others which test runs them, or why none does."""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

root = os.path.abspath(sys.argv[1])
limit = int(os.environ.get("DDPRUN_TEST_DEADLINE", 60))

# A line of an indented block is a command if it begins with "$ ", or, where none does, with one of these.
PROGRAMS = set("ddprun sbatch salloc srun kubectl cmake mpirun qsub bsub flux curl ssh pip apt docker ctest sudo exec "
               "tar sha256sum python3 allreduce_hello chrt ulimit".split())


def is_command(line):
    words = [word for word in line.split() if not re.match(r"[A-Z_]+=", word)]
    return bool(words) and (words[0] in PROGRAMS or re.match(r"(scripts|tests|build|bench)/", words[0]) is not None)


def commands_of_block(block):
    lines = [line[4:] for line in block.splitlines()]
    if any(line.lstrip().startswith("#!") for line in lines):  # a script is one command
        yield "\n".join(line.strip() for line in lines if line.strip())
        return
    typed = any(line.startswith("$ ") for line in lines)
    rest = iter(lines)
    for line in rest:
        if not (line.startswith("$ ") if typed else is_command(line)):
            continue
        line = line.removeprefix("$ ")
        while line.rstrip().endswith(("|", "\\")):
            line = line.rstrip().rstrip("\\") + " " + next(rest).strip()
        yield re.sub(r"\s+# .*|\s{4,}.*", "", line).strip()


def commands_of(page):
    with open(page, encoding="utf8") as file:
        text = file.read()
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    found = [command for block in blocks for command in commands_of_block(block)]
    if os.path.basename(page) == "install.md":  # whose table has them
        found += [span for span in re.findall(r"`([^`\n]+)`", text) if " " in span and is_command(span)]
    return found


class Failed(Exception):
    pass


def begin(command):
    return subprocess.Popen(["bash", "-o", "pipefail", "-c", command], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def end(process, code=0):
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        raise Failed(f"no end within {limit} s: {process.args[-1]}") from None
    if process.returncode != code:
        raise Failed(f"exit code {process.returncode}: {process.args[-1]}\n{output}")
    return output


def here(replace=(), code=0, beside=()):
    """Runs it, where texts of it are others: (text, other). beside: commands that run at the same time."""

    def run(command):
        for text, other in replace:
            command = command.replace(text, other)
        others = [begin(each) for each in beside]
        try:
            end(begin(command), code)
        finally:
            for process in others:
                end(process)
        return "ran"

    return run


def on_nodes(count, replace=(), before="true"):
    """Runs it on so many nodes, which are all this host. R is the node's rank."""

    def run(command):
        for text, other in replace:
            command = command.replace(text, other)
        end(begin(before))
        processes = [begin(command.replace("--node_rank R", f"--node_rank {node}")) for node in range(count)]
        for process in processes:
            end(process)
        return f"ran on {count} nodes"

    return run


def asked(replace=(), ends=False):
    """Runs it while a job runs; ends: it stops that job."""

    def run(command):
        job = begin("exec ddprun --nproc_per_node 2 sh -c 'echo ready; exec sleep 600'")
        name = f"sh.{job.pid}.sock"
        try:
            socket = os.path.join(os.environ["XDG_RUNTIME_DIR"], "ddprun", name)
            wait_until(lambda: os.path.exists(socket))
            for text, other in (("[JOB]", str(job.pid)), ("train.py.4711.sock", name), *replace):
                command = command.replace(text, other)
            process = begin(command)
            if "watch" in command or "-f" in command:  # they go on with the job
                wait_until(lambda: process.poll() is not None or process.stdout.readline())
                job.terminate()
            end(process)
        finally:
            if not ends:
                job.terminate()
            job.communicate(timeout=limit)
        return "ran beside a job"

    return run


def with_etcd(command):
    etcd = subprocess.Popen(["etcd", "--data-dir", "etcd", "--listen-client-urls", "http://127.0.0.1:2379",
                             "--advertise-client-urls", "http://127.0.0.1:2379"], stderr=subprocess.DEVNULL)
    try:
        return on_nodes(4)(command)
    finally:
        etcd.kill()
        etcd.wait()


def served(command):
    """The rendezvous, and the nodes of the line after it, which are on its host here."""
    rendezvous = begin(command)
    nodes = [begin("ddprun --nnodes 2:4 --rdzv_endpoint login:29500 --rdzv_conf is_host=false --nproc_per_node 8 ./train") for _ in range(4)]
    for process in (*nodes, rendezvous):
        end(process)
    return "ran with four nodes"


def wait_until(condition):
    last = time.monotonic() + limit
    while not condition():
        if time.monotonic() > last:
            raise Failed("timed out")
        time.sleep(0.02)


def elsewhere(*tests, reason=""):
    """Run by these files of the tests, which have to be there."""

    def look(_):
        for test in tests:
            if not os.path.exists(os.path.join(root, test)):
                raise Failed(f"there is no {test}")
        return "see " + ", ".join(tests) + (f" ({reason})" if reason else "")

    return look


def never(reason):
    return lambda _: f"not run: {reason}"


SLURM = elsewhere("tests/e2e/netns_slurm.sh", "tests/e2e/netns_slurm_requeue.sh", "tests/e2e/netns_slurm_time_limit.sh")
PACKAGES = elsewhere("tests/packages/tarball.sh", "tests/packages/aarch64.sh", "tests/packages/wheel.sh",
                     "tests/packages/deb.sh")
RELEASE = elsewhere("tests/packages/release.sh")

# The first that fits counts.
RULES = [
    (r"scripts/quickstart", elsewhere("tests/packages/deb_next.sh", reason="on a system with nothing else")),
    (r"scripts/test", elsewhere(".ci/run")),
    (r"sudo cmake --install build", here([("sudo ", "DESTDIR=$PWD/root ")])),
    (r"sha256sum|pip install \./ddprun", RELEASE),
    (r"pip install debugpy|ddprun .*debugpy", never("debugpy is of PyPI; tried by hand")),
    (r"scripts/package|tar |pip |apt ", PACKAGES),
    (r"docker ", elsewhere("tests/packages/deb.sh", reason="what the Dockerfile does; without a daemon of Docker")),
    (r"python -m torch", elsewhere("tests/packages/wheel.sh")),
    (r"ctest .*-L packages", PACKAGES),
    (r"ddprun ls \| status|ddprun (doctor|serve|manifest job\|).*(\[|N$)", never("not a command, but its form")),
    (r".*train_digits|ddprun --nproc_per_node 4 train\.py$", elsewhere("tests/e2e/documented.sh")),
    (r".*build/(line|train)\b(?!_)|cmake -S|cmake --build build$|echo '(add_exe|target_link)", elsewhere("tests/consumer/first_program.sh")),
    (r"ddprun( --nproc_per_node 2 sh| --nproc_per_nod 4| --nnodes 2 \./train| \./trian)", elsewhere("tests/e2e/documented.sh")),
    (r"ddprun --preload torch", elsewhere("tests/interop/preload.sh")),
    (r"python3 -X importtime", never("Python's own")),
    (r".*--pdb", elsewhere("tests/e2e/terminal_pdb.sh", reason="needs a terminal")),
    (r".*bench_collectives|.*build/bin/bench_ddp |bench/(collectives_peers|ddp_torch)$", never("measures for minutes")),
    (r"tests/failures/score --run", elsewhere("tests/failures/CMakeLists.txt")),
    (r".*kubectl", elsewhere("tests/interop/manifest.sh", "tests/e2e/netns_kubernetes.sh",
                             reason="what ddprun prints; no cluster")),
    (r"qsub", elsewhere("tests/e2e/netns_sge.sh")),
    (r"bsub", elsewhere("tests/e2e/netns_lsf.sh")),
    (r".*PBS|flux", never("no PBS and no Flux on a machine of the tests; engine/detect_test.cc has their variables")),
    (r".*(#SBATCH|sbatch|salloc)|srun (?!-n 4)|.*--requeue", SLURM),
    (r"srun -n 4 allreduce_hello", SLURM),
    (r"ddprun doctor --nnodes 4", on_nodes(4)),
    (r"ddprun doctor", here()),
    (r"ddprun \.\.\. --rdzv_conf protocol=https", elsewhere("tests/e2e/etcd_tls.sh")),
    (r".*--rdzv_backend etcd", with_etcd),
    (r"ddprun manifest job --secret train-secret \.\.\.", here([("...", "--name t --image i --nnodes 2 -- ./train")])),
    (r"ddprun serve .*--nnodes 2:4", served),
    (r".*--rdzv_endpoint login:29500", elsewhere("tests/e2e/documented_commands.py", reason="with the line before it")),
    (r"ddprun secret", here([("ddprun", "rm -f job.secret; ddprun")])),
    (r".*--secret_file job\.secret", on_nodes(2, before="rm -f job.secret; ddprun secret job.secret")),
    (r"ddprun --nnodes 2:4", on_nodes(4)),
    (r"ddprun --nnodes 2", on_nodes(2)),
    (r"ddprun (ls|stacks|status|watch)|curl", asked()),
    (r"ddprun logs RANK", asked([("RANK", "1"), ("[-f]", "-f")])),
    (r"ddprun stop", asked(ends=True)),
    (r"ssh -L", elsewhere("tests/interop/web.sh", reason="the page; ssh's forwarding is ssh's")),
    (r"mpirun", here([("-n 4", "--oversubscribe -n 4")])),
    (r"ddprun |PET_|scripts/multinode|allreduce_hello|tests/failures/score --table", here()),
]
ALSO = ["README.md"]  # beside docs/; CONTRIBUTING.md is about the checkout


def outcome_of(command):
    tool = "etcd" if "backend etcd" in command else command.split()[0]
    if tool in ("etcd", "mpirun", "curl") and shutil.which(tool) is None:
        return f"not run: there is no {tool} here"
    for pattern, action in RULES:
        if re.match(pattern, command, re.DOTALL):
            return action(command)
    raise Failed("no rule of documented_commands.py fits it: let it run, or say which test runs it")


def main():
    failed = count = 0
    for page in [*ALSO, *sorted(os.path.relpath(path, root) for path in glob.glob(f"{root}/docs/*.md"))]:
        for command in commands_of(os.path.join(root, page)):
            if "─" in command:  # a drawing
                continue
            count += 1
            begun = time.monotonic()
            try:
                outcome = outcome_of(command)
            except (Failed, subprocess.TimeoutExpired) as error:
                failed += 1
                outcome = f"FAILED: {error}"
            shown = command.replace("\n", "; ")
            print(f"{page}: {shown}\n    {outcome} ({time.monotonic() - begun:.1f} s)", flush=True)
    print(f"{count} commands, {failed} failed")
    if failed or count < 60:
        sys.exit(1)


main()
