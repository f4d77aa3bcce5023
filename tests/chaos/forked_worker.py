# SPDX-License-Identifier: Apache-2.0
"""What --preload forks: it becomes the worker of the other histories."""
import os

os.execv(os.environ['CHAOS_PROGRAM'], [os.environ['CHAOS_PROGRAM']])
