# SPDX-License-Identifier: Apache-2.0
"""A module is missing on one node."""
from failure import Failure

FAILURE = Failure('missing module', r"No module named 'flash_attn'", ranks=(2, 3))


def inject(job):
    job.run(job.worker('import'))
