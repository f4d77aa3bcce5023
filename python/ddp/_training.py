# SPDX-License-Identifier: Apache-2.0
"""Samples and checkpoints."""
import array
from typing import Iterator, Optional, Sequence

from ddp import _native
from ddp._group import ProcessGroup, Work
from ddp._types import Buffer


class DistributedSampler:
    """Selects the samples of a data set that this rank trains on, without communication.

    >>> import ddp
    >>> list(ddp.DistributedSampler(5, num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(self, dataset_size: int, num_replicas: int, rank: int, *, shuffle: bool = True, seed: int = 0,
                 drop_last: bool = False) -> None:
        self._arguments = (dataset_size, num_replicas, rank, shuffle, seed, drop_last)
        self._epoch = 0
        self._size, self._padding = _native.sample(*self._arguments, 0, None)

    def set_epoch(self, epoch: int) -> None:
        """Selects the order of this epoch, if samples are shuffled."""
        self._epoch = epoch

    def __len__(self) -> int:
        return int(self._size)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices())

    @property
    def padding(self) -> int:
        """The number of samples at the end that are repeated only to make the ranks even."""
        return int(self._padding)

    def indices(self) -> "array.array[int]":
        """The samples of this rank in this epoch, in order."""
        indices = array.array("Q", bytes(8 * len(self)))
        _native.sample(*self._arguments, self._epoch, indices)
        return indices


class Checkpoint:
    """The state of a training in a file, which rank 0 writes: all ranks make each call.

    The state is a list of arrays in host memory, with the same types and counts on every rank. The file is a
    safetensors file: at every moment, and after any crash, it is a complete checkpoint, the old one or the new one.
    """

    def __init__(self, path: str) -> None:
        self._handle = _native.checkpoint_make(path)

    def save(self, group: ProcessGroup, version: int, state: Sequence[Buffer]) -> None:
        """Saves the state with a number of the caller's choice (epochs or steps done)."""
        _native.checkpoint_save(self._handle, group._handle, version, list(state), len(state), False)

    def isave(self, group: ProcessGroup, version: int, state: Sequence[Buffer]) -> Work:
        """Copies the state, and saves the copy while the training continues."""
        return Work(_native.checkpoint_save(self._handle, group._handle, version, list(state), len(state), True))

    def load(self, group: ProcessGroup, state: Sequence[Buffer]) -> Optional[int]:
        """Fills the state on every rank, and returns its version; None if no rank finds the file."""
        version, found = _native.checkpoint_load(self._handle, group._handle, list(state), len(state))
        return int(version) if found else None
