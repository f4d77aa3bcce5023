# SPDX-License-Identifier: Apache-2.0
"""Another server has the port of the job."""
import sys

from failure import Failure

FAILURE = Failure('port taken', r'not (a )?ddprun|another program|already in use',
                  ranks=(), host=1, nodes=(2,), launchers=('ddprun', 'torchrun'))
SERVER = '''
import http.server, sys
server = http.server.ThreadingHTTPServer((sys.argv[1], 29500), http.server.SimpleHTTPRequestHandler)
print('serving', flush=True)
server.serve_forever()
'''


def inject(job):
    server = job.run_on(1, [sys.executable, '-c', SERVER, job.names_of(1)[-1]])
    job.wait_for_words('serving')
    job.start(job.worker('wait'))
    job.wait_for_words(FAILURE.cause)
