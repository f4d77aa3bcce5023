# SPDX-License-Identifier: Apache-2.0
"""The clock of a host is wrong."""
import os

from failure import Failure, Unfit

FAILURE = Failure('wrong clock', r'clock.*(ahead|behind|offset|differ)', ranks=(), nodes=(2,), launchers=('ddprun',))


def inject(job):
    library = os.environ.get('FAILURES_CLOCK', '')
    if not os.path.exists(library):
        raise Unfit('FAILURES_CLOCK does not name the clock of the tests')
    job.doctor(environment={2: {'LD_PRELOAD': library}})
