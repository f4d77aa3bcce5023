# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of tests/collectives/store_peer.cc: stores.py master|client PORT."""
import datetime
import sys

import torch.distributed as dist

role, port = sys.argv[1], int(sys.argv[2])
store = dist.TCPStore(
    "127.0.0.1", port, 2, role == "master", timeout=datetime.timedelta(seconds=100)
)

store.set("replaced", "once")
store.set("replaced", "twice")
store.set("from pytorch", b"\0\xfepytorch")
assert store.get("from ddp") == b"\0\xffddp"
store.add("count", 3)
assert store.compare_set("leader", "", "one") == b"one"
store.append("text", "pytorch ")
store.multi_set(["pytorch 1", "pytorch 2"], ["x", ""])
assert store.multi_get(["ddp 1", "ddp 2"]) == [b"a", b""]
assert store.check(["ddp 1", "count"])
assert dist.PrefixStore("in", store).get("room") == b"ddp"
store.set("pytorch is done", "")
store.wait(["ddp is done"])
assert store.add("count", 0) == 5
store.wait(["ddp leaves"])
assert store.num_keys() > 5
store.set("pytorch leaves", "")
print("pytorch passed")
