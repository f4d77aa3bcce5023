# SPDX-License-Identifier: Apache-2.0
"""Stores: keys and values that the processes of a job share."""
from typing import Any, List, Optional, Sequence, Union

from ddp import _native

Value = Union[str, bytes]


def _bytes(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _list(values: Sequence[Value]) -> List[bytes]:
    return [_bytes(value) for value in values]


def _timeout(seconds: Optional[float]) -> int:
    return -1 if seconds is None else int(seconds * 1000)


class Store:
    """What all stores have. Timeouts are seconds; the store's own is used if one is left out.

    >>> import ddp
    >>> store = ddp.HashStore()
    >>> store.set("color", "red")
    >>> store.get("color")
    b'red'
    >>> store.add("count", 3)
    3
    >>> store.get("missing", timeout=0)
    Traceback (most recent call last):
    ...
    ddp.Error: ...
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def set(self, key: str, value: Value) -> None:
        """Sets the value, which ends the waits for the key."""
        _native.store_set(self._handle, key, _bytes(value))

    def get(self, key: str, timeout: Optional[float] = None) -> bytes:
        """Waits for the key, and returns its value."""
        return bytes(_native.store_get(self._handle, key, _timeout(timeout))[0])

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, and returns the sum."""
        return int(_native.store_add(self._handle, key, amount))

    def wait(self, keys: Sequence[str], timeout: Optional[float] = None) -> None:
        """Waits until all keys exist."""
        _native.store_wait(self._handle, _list(keys), _timeout(timeout))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys exist now."""
        return bool(_native.store_check(self._handle, _list(keys)))

    def compare_set(self, key: str, expected: Value, desired: Value) -> bytes:
        """Sets the value to `desired` if it is `expected`; returns the value afterwards."""
        return bytes(_native.store_compare_set(self._handle, key, _bytes(expected), _bytes(desired))[0])

    def delete_key(self, key: str) -> bool:
        """Deletes a key, and returns whether it existed."""
        return bool(_native.store_delete_key(self._handle, key))

    def num_keys(self) -> int:
        """The number of keys in the whole store."""
        return int(_native.store_num_keys(self._handle))

    def append(self, key: str, suffix: Value) -> None:
        """Appends to a value; a missing key counts as empty."""
        _native.store_append(self._handle, key, _bytes(suffix))

    def multi_get(self, keys: Sequence[str], timeout: Optional[float] = None) -> List[bytes]:
        """Waits until all keys exist, and returns their values."""
        return list(_native.store_multi_get(self._handle, _list(keys), _timeout(timeout)))

    def multi_set(self, keys: Sequence[str], values: Sequence[Value]) -> None:
        """Sets a value for each key, in one request."""
        _native.store_multi_set(self._handle, _list(keys), _list(values))

    @property
    def timeout(self) -> float:
        """The default timeout, in seconds."""
        return float(_native.store_timeout(self._handle)) / 1000

    def set_timeout(self, seconds: float) -> None:
        """Sets the default timeout."""
        _native.store_set_timeout(self._handle, int(seconds * 1000))

    @property
    def name(self) -> str:
        """The name of the store in error messages."""
        return bytes(_native.store_name(self._handle)[0]).decode()


class TcpStore(Store):
    """A store that one process serves over TCP: ddprun's agent, PyTorch's TCPStore, or a TcpStore with is_master."""

    def __init__(self, host: str, port: int, is_master: bool = False, world_size: int = 0,
                 timeout: Optional[float] = None) -> None:
        milliseconds = 0 if timeout is None else int(timeout * 1000)
        super().__init__(_native.tcp_store(host, port, is_master, world_size, milliseconds))

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(_native.store_port(self._handle))


class FileStore(Store):
    """A store in a file that all processes can open."""

    def __init__(self, path: str, world_size: int = 0, timeout: Optional[float] = None) -> None:
        milliseconds = 0 if timeout is None else int(timeout * 1000)
        super().__init__(_native.file_store(path, world_size, milliseconds))


class HashStore(Store):
    """A store in the memory of this process, for its threads."""

    def __init__(self) -> None:
        super().__init__(_native.hash_store())


class PrefixStore(Store):
    """A namespace in another store: puts "PREFIX/" in front of every key."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(_native.prefix_store(prefix, store._handle))
        #: the store that was passed
        self.underlying = store
