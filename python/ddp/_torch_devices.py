# SPDX-License-Identifier: Apache-2.0
"""Groups with several backends: "cpu:ddp,cuda:nccl"."""
# PyTorch's releases declare these methods differently:
# mypy: disable-error-code="override, assignment, attr-defined, no-untyped-call"
import sys
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ddp._torch_arguments import Error
from ddp._torch_group import ProcessGroup
from ddp._types import ErrorKind

_CALLS = [
    "allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather", "allgather_coalesced",
    "allgather_into_tensor_coalesced", "all_gather_single", "all_gather_single_coalesced", "_allgather_base", "gather",
    "gather_single", "gather_into_tensor", "scatter", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "_reduce_scatter_base", "alltoall",
    "alltoall_base", "all_to_all_single", "send", "recv", "recv_anysource",
]  # fmt: skip


def others_of(options: Any, backend_options: Any) -> Tuple[Dict[str, Any], Any]:
    """The group's other backends, by device, and its bound device. PyTorch makes no more for a group that a creator has
    returned, so this makes those after the own one. Only variables of the creator's caller tell which there are."""
    caller = sys._getframe(2).f_locals
    if "backend_config" not in caller or "pg" not in caller:
        return {}, None
    names, group = caller["backend_config"].get_device_backend_map(), caller["pg"]
    made = {device.type: group._get_backend(device) for device in group._device_types}
    for device, name in names.items():
        if name != "ddp" and device not in made:
            made[device] = _make(name, device, options, backend_options)
    return made, group.bound_device_id


def _make(name: str, device: str, options: Any, backend_options: Any) -> Any:
    store = c10d.PrefixStore(f"{device}/", options.store)
    arguments = (store, options.group_rank, options.group_size)
    plugin = dist.Backend._plugins.get(name.upper())
    if plugin is not None and plugin.extended_api:
        return plugin.creator_fn(options, backend_options)
    if plugin is not None:
        return plugin.creator_fn(*arguments, options.timeout)
    if name == "gloo":
        return c10d.ProcessGroupGloo(*arguments, timeout=options.timeout)
    if name != "nccl":
        raise Error(f"ddp: there is no backend {name} beside ddp in a group", ErrorKind.usage)
    if backend_options is None:
        backend_options = c10d.ProcessGroupNCCL.Options()
        backend_options._timeout = options.timeout
    return c10d.ProcessGroupNCCL(*arguments, backend_options)


class ProcessGroupOfDevices(ProcessGroup):
    """A group whose tensors on other devices go to other backends."""

    def add(self, others: Dict[str, Any], bound_device: Any) -> None:
        """Adds backends by device."""
        self._others = list(others)
        for device, backend in others.items():
            kind = dist.Backend.backend_type_map.get(backend.name(), dist.ProcessGroup.BackendType.CUSTOM)
            self._register_backend(torch.device(device), kind, backend)
        if bound_device is not None:
            self.bound_device_id = bound_device

    @property
    def _device_types(self) -> List[torch.device]:
        return [torch.device(device) for device in ("cpu", *self._others)]

    def _get_backend(self, device: Any) -> Any:
        device = torch.device(device)
        return self if device.type == "cpu" else dist.ProcessGroup._get_backend(self, device)

    def _start_coalescing(self, device: Any = None) -> None:
        if device is None or torch.device(device).type == "cpu":
            return super()._start_coalescing(device)
        dist.ProcessGroup._start_coalescing(self, device)

    def _end_coalescing(self, device: Any = None) -> Any:
        if device is None or torch.device(device).type == "cpu":
            return super()._end_coalescing(device)
        return dist.ProcessGroup._end_coalescing(self, device)

    def shutdown(self) -> None:
        for device in self._others:
            backend = self._get_backend(device)
            if hasattr(backend, "shutdown"):
                backend.shutdown()
        super().shutdown()

    def abort(self) -> None:
        for device in self._others:
            backend = self._get_backend(device)
            if hasattr(backend, "abort"):
                backend.abort()
        super().abort()

    @staticmethod
    def _is_own(tensor: torch.Tensor) -> bool:
        return tensor.is_cpu


def _first_tensor(arguments: Any) -> Any:
    for argument in arguments:
        found = argument if isinstance(argument, torch.Tensor) else None
        if isinstance(argument, (list, tuple)):
            found = _first_tensor(argument)
        if found is not None:
            return found
    return None


def _by_device(name: str) -> Callable[..., Any]:
    own, others = getattr(ProcessGroup, name), getattr(dist.ProcessGroup, name)

    def call(self: ProcessGroupOfDevices, *arguments: Any, **named: Any) -> Any:
        tensor = _first_tensor(arguments)
        return (own if tensor is None or self._is_own(tensor) else others)(self, *arguments, **named)

    # In a Python function of this name, C++ does not look for the override of the method again.
    call.__code__ = call.__code__.replace(co_name=name)
    return call


for _name in _CALLS:
    if hasattr(dist.ProcessGroup, _name):
        setattr(ProcessGroupOfDevices, _name, _by_device(_name))
