# SPDX-License-Identifier: Apache-2.0
"""A rank gets a fiftieth of a processor."""
from failure import Failure

FAILURE = Failure('a slow rank', r'throttled|CPU quota', needs_root=True)


def inject(job):
    job.environment['FAILURES_CGROUP'] = job.cgroup('cpu', {'cpu.cfs_quota_us': 2000, 'cpu.cfs_period_us': 100000})
    job.start(job.worker('slow'))
    job.wait_for_ranks()
    job.wait_until(lambda: job.says(FAILURE.cause))
