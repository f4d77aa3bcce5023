# SPDX-License-Identifier: Apache-2.0
"""Cases of launcher_behaviours.py: PyTorch's shutdown_timeout_test.py."""
import signal
import time

from behaviours import case, check, finish, found, launch, refused, results, start, wait_for, worker


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
