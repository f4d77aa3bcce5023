# SPDX-License-Identifier: Apache-2.0
"""The name of the first host cannot be resolved."""
from failure import Failure

FAILURE = Failure('unknown host name', r'name or service not known|not resolve|could not be resolved|'
                  r'cannot resolve|host not found|name resolution|no such host',
                  ranks=(), host='gpu-99', nodes=(2,))


def inject(job):
    job.endpoint = 'gpu-99'
    job.start(job.worker('wait'), {'ddprun': ['--join_timeout', '3']})
    job.wait_for_words(FAILURE.cause)
