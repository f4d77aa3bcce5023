# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own tests of its launcher ask for, asked of a launcher: launcher_behaviours.py LAUNCHER...

Each case has the names of the tests of PyTorch whose behaviour it is: those of test/distributed/launcher/ (run,
launch) and of test/distributed/elastic/agent/server/test/ (agent, shutdown_timeout). What those look at inside of
Python's objects is looked at from outside here. The launcher is ddprun, or `python3 -m torch.distributed.run`.
CASES in the environment is a regular expression for the names of those to run."""
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

launcher = sys.argv[1:]
is_ddprun = os.path.basename(launcher[0]) == "ddprun"
here = os.path.dirname(os.path.abspath(__file__))
worker = os.path.join(here, "launcher_worker.py")
limit = int(os.environ.get("DDPRUN_TEST_DEADLINE", 200))
cases = []
folder = ""  # of the case that runs
IGNORED = ("--monitor-interval=1", "--start-method=spawn")  # accepted everywhere


def case(*names, only=None):
    """only: "ddprun" or "torchrun", where the other one cannot do it here; docs/torchrun.md says why."""

    def add(function):
        wanted = re.search(os.environ.get("CASES", ""), " ".join(names))
        if wanted and only in (None, "ddprun" if is_ddprun else "torchrun"):
            cases.append((names, function))
        return function

    return add


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def start(*words, environment=None, command=None):
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
    settings.update(environment or {})
    return subprocess.Popen([*(command or launcher), *words], env=settings, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)


def finish(process, succeeds=True):
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{process.args} did not end within {limit} s") from None
    check((process.returncode == 0) == succeeds, f"{process.args}: exit code {process.returncode}\n{out}\n{err}")
    return out, err


def launch(*words, environment=None, succeeds=True, command=None):
    return finish(start(*words, environment=environment, command=command), succeeds)


def refused(*words, environment=None):
    _, err = launch(*words, environment=environment, succeeds=False)
    check(not os.listdir(results()), f"a worker ran: {words}")
    return err


def results():
    path = os.path.join(folder, "results")
    os.makedirs(path, exist_ok=True)
    return path


def found():
    """{rank: what it wrote}"""
    texts = {}
    for name in os.listdir(results()):
        if name.isdigit():
            with open(os.path.join(results(), name), encoding="utf8") as file:
                texts[int(name)] = file.read()
    return texts


def expect_ranks(count):
    check(set(found()) == set(range(count)), f"ranks {sorted(found())}, not 0 to {count - 1}")


def expect_all(text, count=1):
    check(found() == dict.fromkeys(range(count), text), f"{found()}, not {text!r} of each")


def wait_for(condition, text):
    end = time.monotonic() + limit
    while not condition():
        check(time.monotonic() < end, f"timed out waiting for {text}")
        time.sleep(0.02)


def free_port():  # below those that the kernel gives to connections
    while True:
        port = random.randrange(20000, 28000)
        with contextlib.closing(socket.socket()) as tried, contextlib.suppress(OSError):
            tried.bind(("", port))
            return port


def c10d(nodes="1:2", conf="timeout=60"):
    return (f"--nnodes={nodes}", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}",
            f"--rdzv-conf={conf}", f"--rdzv-id={random.getrandbits(64)}")


QUOTED = "'join_timeout=60,last_call_timeout=1,timeout=60'"


def touches(*words, program=worker, **more):
    return launch(*words, program, "touch", results(), **more)


def variables(*names, options=(), **more):
    launch(*options, worker, "write_variables", results(), *names, **more)


def shell_program():
    path = os.path.join(folder, "script.sh")
    with open(path, "w", encoding="utf8") as file:
        file.write('#!/bin/sh\necho "creating $1/$RANK"; touch "$1/$RANK"\n')
    os.chmod(path, 0o755)
    return path


def nodes(commands):
    """Each is the command line of one node: runs them together, and returns what they printed."""
    processes = [start(*words) for words in commands]
    return [finish(process) for process in processes]


# --- test_run.py


@case("run: test_launch_user_script_python")
def _():
    touches("--nnodes=1", "--nproc-per-node=4", "--rdzv-id=7", *IGNORED)
    expect_ranks(4)


@case("run: test_launch_user_script_python_caffe2_bc")
def _():
    touches("--nnodes=1", "--nproc-per-node=4", "--master-addr=localhost", f"--master-port={free_port()}",
            "--node-rank=0", *IGNORED)
    expect_ranks(4)


@case("run: test_launch_user_script_bash")
def _():
    words = ("--nnodes=1", "--nproc-per-node=4", "--rdzv-id=7", "--no-python", *IGNORED)
    refused(*words, "--module", shell_program(), results())
    launch(*words, shell_program(), results())
    expect_ranks(4)


@case("run: test_launch_user_script_default_nproc")
def _():
    launch("--nnodes=1", "--rdzv-id=7", "--no-python", *IGNORED, shell_program(), results())
    expect_ranks(1)


@case("run: test_launch_with_env_vars")
def _():
    environment = {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "4", "PET_RDZV_ID": "7", "PET_MONITOR_INTERVAL": "1",
                   "PET_START_METHOD": "spawn", "PET_NO_PYTHON": "1"}
    refused(shell_program(), results(), environment={**environment, "PET_MODULE": "1"})
    launch(shell_program(), results(), environment={**environment, "PET_MODULE": "0"})
    expect_ranks(4)


@case("run: test_nproc_launch_auto_configurations")
def _():
    launch("--nproc-per-node=auto", "--no-python", shell_program(), results())
    expect_ranks(len(os.sched_getaffinity(0)))


@case("run: test_nproc_launch_number_configurations")
def _():
    launch("--nproc-per-node=4", "--no-python", shell_program(), results())
    expect_ranks(4)


@case("run: test_nproc_launch_unknown_configurations")
def _():
    refused("--nproc-per-node=unknown", "--no-python", shell_program(), results())


def with_two_gpus():
    """The launcher in a mount namespace of its own with two GPUs, of which a driver of the tests tells."""
    os.symlink(os.environ["FAKE_NVML_LIBRARY"], os.path.join(folder, "libnvidia-ml.so.1"))
    script = ('mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0000:17:00.0 '
              '/proc/driver/nvidia/gpus/0000:3b:00.0 && LD_LIBRARY_PATH=$1 FAKE_NVML="gpu gpu" && shift && '
              'export LD_LIBRARY_PATH FAKE_NVML && exec "$@"')
    return ["unshare", "--mount", "sh", "-c", script, "sh", folder, *launcher]


@case("run: test_nproc_gpu_launch_configurations", only="ddprun")
def _():
    command = with_two_gpus()
    for count in ("auto", "gpu"):
        launch(f"--nproc-per-node={count}", "--no-python", shell_program(), results(), command=command)
        expect_ranks(2)


@case("run: test_nproc_xpu_launch_configurations")  # where there is none
def _():
    refused("--nproc-per-node=xpu", "--no-python", shell_program(), results())


@case("run: test_launch_elastic")
def _():
    touches(*c10d(conf=QUOTED), "--nproc-per-node=4", *IGNORED)
    expect_ranks(4)


@case("run: test_launch_elastic_worker_raise_exception")
def _():
    launch(*c10d(conf=QUOTED), "--nproc-per-node=4", "--max-restarts=0", *IGNORED, worker, "fail", succeeds=False)


@case("run: test_launch_elastic_agent_raise_exception", only="ddprun")  # torchrun has no other process to say it
def _():
    process = start("--no-python", "sh", "-c", f"touch {results()}/0; exec sleep 600")
    wait_for(found, "the worker")
    agent = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout
    os.kill(int(agent), signal.SIGKILL)
    _, err = finish(process, succeeds=False)
    check("agent was killed by SIGKILL" in err, err)


@case("run: test_launch_standalone")
def _():
    touches("--nnodes=1", "--nproc-per-node=4", "--standalone", *IGNORED)
    expect_ranks(4)


@case("run: test_launch_run_path")
def _():
    touches("--run-path", "--nnodes=1", "--nproc-per-node=4", *IGNORED)
    expect_ranks(4)


@case("run: test_launch_elastic_multiple_agents")
def _():
    words = (*c10d(), "--nproc-per-node=4", *IGNORED, worker, "touch", results())
    nodes([words, words])
    expect_ranks(8)


@case("run: test_min_max_nodes_parse")
def _():
    touches("--nnodes=1")
    expect_ranks(1)
    touches(*c10d("1:20", QUOTED))
    with tempfile.TemporaryDirectory() as empty:
        refused_words = ("--nnodes=2:20:30", worker, "touch", empty)
        launch(*refused_words, succeeds=False)
        check(not os.listdir(empty), "a worker ran")


@case("run: test_launch_shutdown")
def _():
    port = free_port()
    touches("--nproc-per-node=4", "--master-addr=127.0.0.1", f"--master-port={port}")
    with contextlib.closing(socket.socket()) as tried:  # the rendezvous is no longer there
        check(tried.connect_ex(("127.0.0.1", port)) != 0, "somebody listens at the master's port")


@case("run: test_is_torchelastic_launched")
def _():
    launch("--run-path", "--nnodes=1", "--nproc-per-node=1", worker, "is_torchelastic", results())
    expect_all("True")


@case("run: test_is_torchelastic_launched_with_logs_spec_defined")
def _():
    touches("--run-path", "--nnodes=1", "--nproc-per-node=1", "--logs_specs=default")
    expect_ranks(1)


@case("run: test_logs_logs_spec_entrypoint_must_be_defined")
def _():
    refused("--run-path", "--nnodes=1", "--nproc-per-node=1", "--logs_specs=DOESNOT_EXIST", worker, "touch", results())


@case("run: test_is_not_torchelastic_launched")
def _():
    launch(worker, "is_torchelastic", results(), command=["python3"], environment={"RANK": "0"})
    expect_all("False")


@case("run: test_init_method_tcp_with_torchelastic")
def _():
    port = free_port()
    launch("--run-path", "--nnodes=1", "--nproc-per-node=2", "--master-addr=localhost", f"--master-port={port}",
           worker, "all_reduce", results(), f"tcp://localhost:{port}")
    expect_all("1 of 2", 2)


@case("run: test_init_method_env_with_torchelastic")
def _():
    launch("--run-path", "--nnodes=1", "--nproc-per-node=2", "--master-addr=localhost",
           f"--master-port={free_port()}", worker, "all_reduce", results(), "env://")
    expect_all("1 of 2", 2)


@case("run: test_capture_logs_using_default_logs_specs")
def _():
    out, _ = launch("--nnodes=1", "--nproc-per-node=4", "--rdzv-id=7", "--redirect=3", "--tee=3", "--no-python",
                    *IGNORED, shell_program(), results(),
                    environment={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank${rank}]: "})
    for rank in range(4):
        check(f"[rank{rank}]: creating " in out, out)


@case("run: test_virtual_local_rank", only="ddprun")  # with a driver of the tests, which torchrun does not ask
def _():
    command = with_two_gpus()
    variables("LOCAL_RANK", options=("--nproc-per-node=2",), command=command)
    check(found() == {0: "0", 1: "1"}, str(found()))
    variables("LOCAL_RANK", "CUDA_VISIBLE_DEVICES", options=("--nproc-per-node=2", "--virtual-local-rank"),
              command=command)
    seen = found()
    check({text.split()[0] for text in seen.values()} == {"0"}, str(seen))
    check(len({text.split()[1] for text in seen.values()}) == 2, str(seen))


# --- launch_test.py


def launch_module():
    return [launcher[0], "launch"] if is_ddprun else ["python3", "-W", "ignore", "-m", "torch.distributed.launch"]


@case("launch: test_launch_without_env")
def _():
    out, _ = launch("--nnodes=1", "--nproc-per-node=4", "--master-addr=localhost", f"--master-port={free_port()}",
                    "--node-rank=0", *IGNORED, os.path.join(here, "distributed_launch.py"), command=launch_module())
    for rank in range(4):
        check(f"rank {rank} of 4: local rank {rank}" in out, out)


@case("launch: test_launch_with_env")
def _():
    touches("--nnodes=1", "--nproc-per-node=4", "--master-addr=localhost", f"--master-port={free_port()}",
            "--node-rank=0", *IGNORED, "--use-env", command=launch_module())
    expect_ranks(4)


# --- shutdown_timeout_test.py


def stop_time(*words, environment=None):
    """How long a worker that ignores SIGTERM lives after it."""
    process = start("--no-python", *words, "sh", "-c",
                    f"trap '' TERM; touch {results()}/0; exec sleep 600", environment=environment)
    wait_for(found, "the worker")
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    finish(process, succeeds=False)
    return time.monotonic() - begin


@case("shutdown_timeout: test_launch_config_default_shutdown_timeout",
      "shutdown_timeout: test_simple_elastic_agent_default_shutdown_timeout", only="ddprun")
def _():
    out, _ = launch("help", "shutdown_timeout")
    check("[default: 30" in out.replace("\n", " "), out)


@case("shutdown_timeout: test_launch_config_custom_shutdown_timeout",
      "shutdown_timeout: test_simple_elastic_agent_receives_shutdown_timeout",
      "shutdown_timeout: test_local_elastic_agent_receives_shutdown_timeout",
      "shutdown_timeout: test_shutdown_method_receives_correct_timeout",
      "shutdown_timeout: test_pcontext_close_receives_timeout")
def _():
    check(stop_time("--shutdown-timeout=1") >= 1, "it was killed before its time")


@case("shutdown_timeout: test_launch_config_env_var_shutdown_timeout")
def _():
    check(stop_time(environment={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1"}) >= 1, "it was killed before its time")


@case("shutdown_timeout: test_launch_config_explicit_overrides_env")
def _():  # else it ends by the limit of this test
    check(stop_time("--shutdown-timeout=1", environment={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "600"}) >= 1,
          "it was killed before its time")


@case("shutdown_timeout: test_shutdown_timeout_validation_negative")
def _():
    refused("--shutdown-timeout=-5", worker, "touch", results())


@case("shutdown_timeout: test_shutdown_timeout_zero")
def _():
    stop_time("--shutdown-timeout=0")


# --- local_elastic_agent_test.py


@case("agent: test_dummy_compute_c10d", "agent: test_run_happy_function_c10d",
      "agent: test_run_function_with_return_value_c10d", "agent: test_barrier_failed_c10d",
      "agent: test_shutdown_called_c10d")
def _():
    launch(*c10d("1"), "--nproc-per-node=2", "--no-python", shell_program(), results())
    expect_ranks(2)


@case("agent: test_check_master_addr_port_override")
def _():
    port = free_port()
    variables("MASTER_ADDR", "MASTER_PORT", options=("--master-addr=127.0.0.2", f"--master-port={port}"))
    expect_all(f"127.0.0.2 {port}")


@case("agent: test_run_check_env_function")
def _():
    names = ("RANK LOCAL_RANK ROLE_RANK ROLE_NAME GROUP_RANK LOCAL_WORLD_SIZE ROLE_WORLD_SIZE WORLD_SIZE "
             "GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS "
             "TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE TORCH_NCCL_ASYNC_ERROR_HANDLING").split()
    variables(*names, options=c10d("1"))
    check("-" not in found()[0].split(), found()[0])


@case("agent: test_run_check_nccl_async_error_handling_env_c10d")
def _():
    variables("TORCH_NCCL_ASYNC_ERROR_HANDLING", options=c10d("1"),
              environment={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"})
    expect_all("0")


@case("agent: test_run_check_nccl_async_error_handling_env_default_c10d")
def _():
    variables("TORCH_NCCL_ASYNC_ERROR_HANDLING", options=c10d("1"))
    expect_all("1")


@case("agent: test_run_agent_local_watchdog_setup_enabled_c10d")
def _():
    path = os.path.join(folder, "timer")
    for environment in ({"TORCHELASTIC_TIMER_FILE": path}, {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}):
        variables("TORCHELASTIC_TIMER_FILE", options=c10d("1"), environment=environment)
        check(found()[0] not in ("-", ""), f"{environment}: no timer file")


@case("agent: test_run_agent_local_watchdog_setup_disabled_c10d")
def _():
    variables("TORCHELASTIC_TIMER_FILE", options=c10d("1"))
    expect_all("-")


@case("agent: test_run_agent_healthcheck_setup_enabled_c10d")
def _():
    variables("TORCHELASTIC_HEALTH_CHECK_PORT", options=c10d("1"),
              environment={"TORCHELASTIC_HEALTH_CHECK_PORT": "12345"})
    expect_all("12345")


@case("agent: test_run_agent_healthcheck_setup_disabled_c10d")
def _():
    variables("TORCHELASTIC_HEALTH_CHECK_PORT", options=c10d("1"))
    expect_all("-")


@case("agent: test_simple_dist_sum_c10d")
def _():
    launch(*c10d("1"), "--nproc-per-node=2", worker, "all_reduce", results(), "env://")
    expect_all("1 of 2", 2)


@case("agent: test_run_distributed_sum_homogeneous_c10d", "agent: test_run_with_custom_log_lines")
def _():
    words = (*c10d("2"), "--nproc-per-node=2", "--role=sum", "--tee=3", worker, "all_reduce", results(), "env://")
    template = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${role_name}-${local_rank}:${rank}]:"}
    processes = [start(*words, environment=template) for _ in range(2)]
    out = "".join(finish(process)[0] for process in processes)
    expect_all("6 of 4", 4)
    for rank in range(4):
        check(f"[sum-{rank % 2}:{rank}]:sum 6" in out, out)


@case("agent: test_run_distributed_sum_heterogeneous_c10d")
def _():
    words = c10d("3")
    nodes([(*words, f"--nproc-per-node={count}", worker, "all_reduce", results(), "env://") for count in (1, 2, 3)])
    expect_all("15 of 6", 6)


@case("agent: test_run_sad_function_c10d")
def _():
    reply = os.path.join(folder, "error.json")
    launch(*c10d("1"), "--nproc-per-node=2", worker, "recorded", results(), succeeds=False,
           environment={"TORCHELASTIC_ERROR_FILE": reply})
    with open(reply, encoding="utf8") as file:
        message = json.load(file)["message"]
    check(message["message"] == "RuntimeError: sad because i throw", str(message))
    check(int(message["extraInfo"]["timestamp"]) > 0, str(message))


@case("agent: test_run_bipolar_function_c10d")
def _():
    variables("TORCHELASTIC_MAX_RESTARTS", options=("--max-restarts=2",))
    expect_all("2")
    launch(*c10d("1"), "--nproc-per-node=4", "--max-restarts=2", "--no-python", "sh", "-c",
           f'[ $((RANK % 2)) = 0 ] || {{ echo >>{results()}/7; exit 1; }}; exec sleep 600', succeeds=False)
    check(len(found()[7]) >= 3, "not three attempts")


def check_roles(counts):
    """Global and role ranks of each node's workers follow each other, and are all there."""
    words = c10d(str(len(counts)))
    names = ("ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "GROUP_RANK", "WORLD_SIZE")
    nodes([(*words, f"--role={role}", f"--nproc-per-node={count}", "--no-python", "sh", "-c",
            'echo "$ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE $GROUP_RANK $WORLD_SIZE" >"$0/$RANK"', results())
           for role, count in counts])
    expect_ranks(sum(count for _, count in counts))
    ranks = {rank: dict(zip(names, text.split())) for rank, text in found().items()}
    for role in dict(counts):
        mine = [each for each in ranks.values() if each["ROLE_NAME"] == role]
        check(sorted(int(each["ROLE_RANK"]) for each in mine) == list(range(len(mine))), f"{role}: {mine}")
        check({int(each["ROLE_WORLD_SIZE"]) for each in mine} == {len(mine)}, f"{role}: {mine}")
    for node in {each["GROUP_RANK"] for each in ranks.values()}:
        of_node = sorted((rank, int(each["ROLE_RANK"])) for rank, each in ranks.items() if each["GROUP_RANK"] == node)
        check(all(b[0] == a[0] + 1 and b[1] == a[1] + 1 for a, b in zip(of_node, of_node[1:])), str(of_node))
    check({int(each["WORLD_SIZE"]) for each in ranks.values()} == {len(ranks)}, str(ranks))


@case("agent: test_correct_rank_assignment_heterogeneous")
def _():
    check_roles([("master", 8), ("trainer", 1), ("trainer", 2), ("trainer", 3), ("trainer", 4), ("ps", 5), ("ps", 2)])


@case("agent: test_correct_rank_assignment_homogeneous")
def _():
    check_roles([("master", 1), ("trainer", 4), ("trainer", 4), ("trainer", 4), ("trainer", 4), ("ps", 3), ("ps", 3)])


def sums_until(gate, count):
    """The command lines of the host of the rendezvous, and of another node: workers add when GATE is there."""
    words = (*c10d(count, "timeout=60,last_call_timeout=1,is_host=true"), "--nproc-per-node=1", "--max-restarts=2",
             worker, "all_reduce", results(), "env://", gate)
    return words, [word.replace("is_host=true", "is_host=false") for word in words]


def begun():
    return {name for name in os.listdir(results()) if name.startswith("begun")}


@case("agent: test_double_agent_fault_tolerance")
def _():
    gate = os.path.join(folder, "gate")
    host, other = sums_until(gate, "2")
    first, second = start(*host), start(*other)
    wait_for(lambda: len(begun()) == 2, "two workers")
    second.kill()
    finish(second, succeeds=False)
    third = start(*other)
    open(gate, "w", encoding="utf8").close()
    finish(first), finish(third)
    expect_all("1 of 2", 2)


@case("agent: test_double_agent_elastic_c10d")
def _():
    gate = os.path.join(folder, "gate")
    host, other = sums_until(gate, "1:2")
    first, second = start(*host), start(*other)
    wait_for(lambda: len(begun()) == 2, "two workers")
    second.kill()
    finish(second, succeeds=False)
    check(second.returncode == -signal.SIGKILL, "it was not killed")
    open(gate, "w", encoding="utf8").close()
    finish(first)
    check(found()[0] == "0 of 1", str(found()))


@case("agent: test_no_exit_barrier_on_failure")
def _():
    words = (*c10d("2"), "--nproc-per-node=2", "--max-restarts=0", worker, "fail_odd", results())
    for process in [start(*words), start(*words)]:  # the ranks that sleep for 600 s have to be stopped
        finish(process, succeeds=False)
    check(not found(), "a worker ended by itself")


@case("agent: test_torch_rpc_c10d")
def _():
    words = (*c10d("2"), "--nproc-per-node=1", worker, "rpc", results())
    nodes([words, words])
    check(found() == {0: "HELLO"}, str(found()))


@case("agent: test_workers_drift_success", "agent: test_workers_drift_fail")
def _():
    words = (*c10d("2"), "--nproc-per-node=1", worker, "sleep_by_rank", results(), "1")
    nodes([words, words])
    expect_ranks(2)


@case("agent: test_rank_restart_after_failure")
def _():
    launch(*c10d("1"), "--nproc-per-node=2", "--max-restarts=3", worker, "die_once", results())
    expect_all("1", 2)


def main():
    global folder
    failed = []
    for names, function in cases:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                function()
                outcome = "passed"
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed.append(names[0])
                outcome = f"FAILED: {error}"
        print(f"{time.monotonic() - begin:6.2f} s  {', '.join(names)}: {outcome}", flush=True)
    print(f"{sum(len(names) for names, _ in cases)} behaviours in {len(cases)} cases, {len(failed)} failed")
    sys.exit(1 if failed else 0)


main()
