# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of torch.distributed, one rank: torch_distributed.py BACKEND FOLDER [TEST...]

The tests are those that run with gloo on the CPU, and the group is one of BACKEND. Each test runs in a process that is
forked after the import. Exits 1 if one fails. FOLDER is the same on all ranks."""
import os
import signal
import sys
import traceback
import unittest

BACKEND, FOLDER, *WANTED = sys.argv[1:]
os.environ["BACKEND"] = "gloo"  # what the module takes for the backend: it skips tests that are not for that one
sys.modules["expecttest"] = unittest  # PyTorch's test case needs its TestCase, and these tests nothing more
from datetime import timedelta  # noqa: E402

import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_utils  # noqa: E402
from torch.testing._internal.common_distributed import TEST_SKIPS  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

distributed_test.BACKEND = BACKEND  # what tests expect while they run
LIMIT = 100  # seconds until a test hangs
SKIPPED = 77
SKIPS = {skip.exit_code for skip in TEST_SKIPS.values()}


class Tests(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    pass


def run(name, rank):
    folder = f"{FOLDER}/{name}"
    os.makedirs(folder + "/barrier", exist_ok=True)
    os.makedirs(folder + "/test_dir", exist_ok=True)
    os.environ["TEMP_DIR"] = folder
    if name.startswith("test_accumulate_gradients_no_sync"):  # without a name that it knows it has no model
        distributed_test.BACKEND = "gloo"
    test = Tests(name)
    test.rank, test.file_name = rank, folder + "/init"
    seconds = distributed_test.CUSTOM_PG_TIMEOUT.get(name, distributed_test.default_pg_timeout)
    dist.init_process_group(BACKEND, init_method=f"file://{folder}/init", rank=rank,
                            world_size=int(os.environ["WORLD_SIZE"]), timeout=timedelta(seconds=seconds))  # fmt: skip
    common_utils.set_rng_seed()
    test._barrier()
    getattr(test, name)()
    test._barrier()
    if dist.is_initialized():
        dist.destroy_process_group()


def code_of(name, rank):
    signal.alarm(LIMIT)
    try:
        run(name, rank)
    except unittest.SkipTest:
        return SKIPPED
    except SystemExit as end:
        return SKIPPED if end.code in SKIPS else end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main():
    rank = int(os.environ["RANK"])
    names = [name for name in unittest.TestLoader().getTestCaseNames(Tests)
             if not getattr(getattr(Tests, name), "__unittest_skip__", False)]  # fmt: skip
    counts = {"passed": 0, "skipped": 0, "failed": 0}
    for name in WANTED or names:
        pid = os.fork()
        if pid == 0:
            code = code_of(name, rank)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        status = os.waitpid(pid, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        result = {0: "passed", SKIPPED: "skipped"}.get(code, "failed")
        counts[result] += 1
        if result != "skipped":
            print(f"{result} {name} ({code})", flush=True)
    print(f"passed {counts['passed']}, failed {counts['failed']}, skipped {counts['skipped']}", flush=True)
    sys.exit(1 if counts["failed"] else 0)


main()
