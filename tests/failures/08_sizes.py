# SPDX-License-Identifier: Apache-2.0
"""A rank makes a collective call with another size."""
from failure import Failure

FAILURE = Failure('sizes differ', r'\[8\].*waited in.*\[4\]|\[(8|4)\].*\bbut\b.*\[(4|8)\]|\b(32|16) (vs\.?|!=|against) (16|32)\b')


def inject(job):
    job.run(job.collective('sizes'))
