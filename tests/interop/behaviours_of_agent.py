# SPDX-License-Identifier: Apache-2.0
"""Cases of launcher_behaviours.py: PyTorch's local_elastic_agent_test.py."""
import json
import os
import signal

from behaviours import (
    c10d, case, check, expect_all, expect_ranks, finish, found, free_port, in_folder, launch, nodes, results,
    shell_program, start, variables, wait_for, worker)


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
    path = in_folder("timer")
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
    reply = in_folder("error.json")
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
    gate = in_folder("gate")
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
    gate = in_folder("gate")
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
    nodes([(*words, "master", "hello"), (*words, "worker")])
    check(list(found().values()) == ["HELLO"], str(found()))


@case("agent: test_workers_drift_success", "agent: test_workers_drift_fail")
def _():
    words = (*c10d("2"), "--nproc-per-node=1", worker, "sleep", results())
    nodes([(*words, "0"), (*words, "1")])
    expect_ranks(2)


@case("agent: test_rank_restart_after_failure")
def _():
    launch(*c10d("1"), "--nproc-per-node=2", "--max-restarts=3", worker, "die_once", results())
    expect_all("1", 2)
