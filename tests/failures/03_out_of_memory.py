# SPDX-License-Identifier: Apache-2.0
"""The kernel kills a rank, as its node has no memory left."""
from failure import Failure

FAILURE = Failure('out of memory', r'out of memory|oom', needs_root=True)


def inject(job):
    job.groups[job.last_node] = job.cgroup('memory', {'memory.limit_in_bytes': 1 << 30})
    job.run(job.worker('memory'))
