# SPDX-License-Identifier: Apache-2.0
"""Cases of launcher_behaviours.py: PyTorch's test_run.py (run) and launch_test.py (launch)."""
import contextlib
import os
import signal
import socket
import subprocess
import tempfile

from behaviours import (
    IGNORED, QUOTED, c10d, case, check, expect_all, expect_ranks, finish, found, free_port, here, in_folder,
    is_ddprun, launch, launcher, nodes, refused, results, shell_program, start, touches, variables, wait_for, worker)


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
    os.symlink(os.environ["FAKE_NVML_LIBRARY"], in_folder("libnvidia-ml.so.1"))
    script = ('mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0000:17:00.0 '
              '/proc/driver/nvidia/gpus/0000:3b:00.0 && LD_LIBRARY_PATH=$1 FAKE_NVML="gpu gpu" && shift && '
              'export LD_LIBRARY_PATH FAKE_NVML && exec "$@"')
    return ["unshare", "--mount", "sh", "-c", script, "sh", in_folder(), *launcher]


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
