# SPDX-License-Identifier: Apache-2.0
"""ddprun, a launcher for distributed training, is a program: `ddprun`, or `python -m ddprun`."""
