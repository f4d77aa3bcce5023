# SPDX-License-Identifier: Apache-2.0
"""A rank makes a collective call with another size."""
from failure import Failure

FAILURE = Failure('sizes differ', r'\b(8|4)\b.*(where|but|and|while|!=|against).*\b(4|8)\b', pair=True)


def inject(job):
    job.run(job.collective('sizes'))
