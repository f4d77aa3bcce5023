# SPDX-License-Identifier: Apache-2.0
"""What a failure is, for the scripts of this folder that cause one each, and for the judge."""
from dataclasses import dataclass

GUILTY = 3       # of ranks 0 to 3, two on each node
GUILTY_NODE = 2  # with one node: 1


class Unfit(Exception):
    """The failure cannot be caused here, or not with this launcher."""


@dataclass(frozen=True)
class Failure:
    title: str
    cause: str                         # a regular expression: the accepted words for the cause
    ranks: tuple = (GUILTY,)           # one of them is to be named; empty: it is no rank's failure
    host: object = GUILTY_NODE         # the node to be named; None: no host is to blame
    launchers: tuple = ('ddprun', 'torchrun', 'mpirun')  # that have what fails
    nodes: tuple = (1, 2)              # for how many nodes it makes sense
    needs_root: bool = False
    with_ddp: bool = False             # only a program that trains with PyTorch's DDP has it
