# SPDX-License-Identifier: Apache-2.0
"""What c10d passes to a process group, and gets: tensors as buffers, lists, options, errors."""
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ddp import _native, _types
from ddp._types import DataType, ErrorKind, ReduceOp

Tensor = torch.Tensor
Buffer = Tuple[int, int, int, Tensor]  # of elements.cc: address, count, type and owner

TYPES: Dict[torch.dtype, int] = {
    getattr(torch, name): type.value
    for name, type in {
        **{type.name: type for type in DataType},
        "bool": DataType.boolean,
        "float8_e4m3fn": DataType.float8_e4m3,
    }.items()
    if isinstance(getattr(torch, name, None), torch.dtype)
}
_OPS = {getattr(dist.ReduceOp.RedOpType, op.name.upper()): op.value for op in ReduceOp}
_BYTES = DataType.uint8.value

_knows_async = hasattr(c10d.AllreduceOptions(), "asyncOp")  # 2.8 and later


def is_async(opts: Any) -> bool:
    return not _knows_async or opts.asyncOp


class Error(_types.Error, dist.DistBackendError):
    """An error of ddp that is one of PyTorch's, too."""

    def __str__(self) -> str:
        hint = "; the timeout is that of the call or the group" if self.kind == ErrorKind.timed_out else ""
        return super().__str__() + hint


Error.__module__ = "ddp"
_native.set_error(Error)  # from now on


def _check_place(tensor: Tensor) -> None:
    if not tensor.is_cpu:
        text = f'a tensor is on {tensor.device}, and this group is for the CPU: name a backend for both, as "cpu:ddp,cuda:nccl"'
        raise Error("ddp: " + text, ErrorKind.usage)


def elements(tensor: Tensor) -> Buffer:
    """A contiguous tensor for calls that combine elements."""
    _check_place(tensor)
    if tensor.dtype not in TYPES:
        raise Error(f"ddp: ranks cannot combine elements of {tensor.dtype}", ErrorKind.usage)
    return (tensor.data_ptr(), tensor.numel(), TYPES[tensor.dtype], tensor)


def moved(tensor: Tensor) -> Buffer:
    """A contiguous tensor for calls that only move elements: also of types that ddp does not know."""
    _check_place(tensor)
    if tensor.dtype in TYPES:
        return (tensor.data_ptr(), tensor.numel(), TYPES[tensor.dtype], tensor)
    return (tensor.data_ptr(), tensor.numel() * tensor.element_size(), _BYTES, tensor)


def op_number(op: Any) -> int:
    if op.op not in _OPS:
        raise Error(f"ddp: ranks cannot combine elements by {op.op.name}", ErrorKind.usage)
    return _OPS[op.op]


def joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def copy_parts(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    for part, tensor in zip(torch.split(flat, [tensor.numel() for tensor in tensors]), tensors):
        tensor.detach().copy_(part.view(tensor.shape))


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _adjoining(tensors: Sequence[Tensor]) -> Optional[Tensor]:
    """The tensors as one, if each begins where the one before it ends, as those of chunk() do."""
    first, place = tensors[0], tensors[0].data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != place or tensor.dtype != first.dtype or not tensor.is_contiguous():
            return None
        if _storage(tensor) != _storage(first):
            return None
        place += tensor.numel() * tensor.element_size()
    return first.detach().as_strided((sum(tensor.numel() for tensor in tensors),), (1,))


def flat_of(outputs: Sequence[Tensor], input: Optional[Tensor] = None) -> Tuple[Tensor, Optional[Callable[[], Any]]]:
    """One tensor for the call to write to while it reads the input, and how the outputs get their elements."""
    whole = _adjoining(outputs)
    if whole is not None and (input is None or _storage(input) != _storage(whole)):
        return whole, None
    flat = outputs[0].new_empty(sum(output.numel() for output in outputs))
    return flat, lambda: copy_parts(flat, outputs)


def dense_of(output: Tensor) -> Tuple[Tensor, Optional[Callable[[], Any]]]:
    """A contiguous tensor for the call to write to, and how the output gets its elements afterwards."""
    if output.is_contiguous():
        return output, None
    dense = output.detach().contiguous()
    return dense, lambda: output.detach().copy_(dense)


def only(tensors: Union[Tensor, Sequence[Tensor]]) -> Tensor:
    """The tensor of a call for one tensor, which c10d passes as a list."""
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise Error(f"ddp: this call takes one tensor, and not {len(tensors)}", ErrorKind.usage)
    return tensors[0]


def list_in(tensors: Any) -> Sequence[Tensor]:
    """The list of a call for one list of tensors, which c10d passes as a list of lists."""
    parts: Sequence[Tensor] = tensors if tensors and isinstance(tensors[0], Tensor) else tensors[0]
    return parts


def options_of(kind: Callable[[], Any], opts: Any, **values: Any) -> Any:
    """The options that callers of a process group pass, or the values that they pass instead."""
    if isinstance(opts, kind):  # type: ignore[arg-type]
        return opts
    made = kind()
    for name, value in values.items():
        if value is not None:
            setattr(made, name, value)
    return made
