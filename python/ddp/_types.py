# SPDX-License-Identifier: Apache-2.0
"""Types that all parts of ddp use."""
import array
import enum
from typing import Any, NamedTuple, Optional, Protocol, Tuple, Union

from ddp import _native


class ErrorKind(enum.IntEnum):
    """The kind of a failure, for programs. The text of the Error is for users."""

    usage = 1  #: wrong argument or environment: nothing was sent, the group stays usable
    unreachable = 2  #: the store cannot be reached, or was lost
    timed_out = 3  #: a deadline passed, usually because a rank did not make the call
    peer_lost = 4  #: a rank died
    mismatch = 5  #: ranks made different calls
    system = 6  #: another failure of the operating system or of the backend
    left = 7  #: a rank has left the group, and this one waits for it


class Error(RuntimeError):
    """Raised by every call of ddp that fails.

    `kind` is an ErrorKind. `rank` is this process's rank, as the text names it, and None if the call is no group's.
    `lost_ranks` are the ranks that are known to be lost: empty where only the text names them.
    """

    def __init__(self, text: str, kind: int, rank: int = -1, lost_ranks: Tuple[int, ...] = ()) -> None:
        super().__init__(text, kind, rank, lost_ranks)
        self.kind = ErrorKind(kind)
        self.rank: Optional[int] = None if rank < 0 else rank
        self.lost_ranks = lost_ranks

    def __str__(self) -> str:
        return str(self.args[0])


_native.set_error(Error)


class ReduceOp(enum.IntEnum):
    """How the elements of all ranks are combined."""

    sum = 0
    avg = 1
    product = 2
    min = 3
    max = 4
    band = 5
    bor = 6
    bxor = 7


class DataType(enum.IntEnum):
    """The types of elements."""

    float16 = 0
    bfloat16 = 1
    float32 = 2
    float64 = 3
    int8 = 4
    uint8 = 5
    int32 = 6
    int64 = 7
    int16 = 8
    uint16 = 9
    uint32 = 10
    uint64 = 11
    boolean = 12
    float8_e4m3 = 13
    float8_e5m2 = 14
    complex64 = 15
    complex128 = 16


class SupportsDLPack(Protocol):
    """An array of numpy, JAX, PyTorch, CuPy, or of another library with DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


class View(NamedTuple):
    """Elements of another object: see view()."""

    of: Any
    dtype: Optional[int]
    stream: int


Buffer = Union[SupportsDLPack, bytes, bytearray, memoryview, "array.array[Any]", View]


def view(of: Buffer, dtype: Optional[DataType] = None, stream: int = 0) -> View:
    """Sees the bytes of an object as elements of another type, for types that its library does not pass on:

    >>> import ddp
    >>> ddp.view(bytearray(4), ddp.DataType.bfloat16).dtype
    <DataType.bfloat16: 1>

    `stream` is the CUDA stream (an address) that elements in a GPU's memory belong to; 0 is the default stream.
    """
    return View(of, dtype, stream)
