# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's own tests of its launcher ask for, asked of a launcher: launcher_behaviours.py LAUNCHER...

Each case has the names of the tests of PyTorch whose behaviour it is: those of test/distributed/launcher/ (run,
launch) and of test/distributed/elastic/agent/server/test/ (agent, shutdown_timeout). What those look at inside of
Python's objects is looked at from outside here. The launcher is ddprun, or `python3 -m torch.distributed.run`.
CASES in the environment is a regular expression for the names of those to run."""
import behaviours
import behaviours_of_run
import behaviours_of_shutdown
import behaviours_of_agent

behaviours.run_cases()
