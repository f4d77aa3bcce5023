# SPDX-License-Identifier: Apache-2.0
# The functions of ddp/ddp.h, without ddp_ in front: the rest of the package, which calls them, has the types.
from typing import Any

def __getattr__(name: str) -> Any: ...
