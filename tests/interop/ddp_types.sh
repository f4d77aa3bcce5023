#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The types of the package ddp, and of a program that uses it, are right for mypy. The examples in docs are, too.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
package=$(realpath "$DDPRUN_BIN/../python")
[ -e "$package/ddp/_native.abi3.so" ] || skip "ddp for Python is not built: it needs Python's headers"
export PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH}

"$python" - "$package"/ddp/_*.py <<'PROGRAM' || fail "an example of the package"
import doctest, importlib, pathlib, sys

modules = [importlib.import_module("ddp." + pathlib.Path(file).stem) for file in sys.argv[1:]]
sys.exit(sum(doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed for module in modules) > 0)
PROGRAM
"$python" -m doctest -o ELLIPSIS "$interop/../../docs/python.md" || fail "an example of docs/python.md"

"$python" -c 'import mypy' 2>/dev/null || skip "no mypy: scripts/setup --interop installs it"
mypy() {
  "$python" -m mypy --strict --cache-dir "$work/mypy" "$@"
}
mypy "$interop/../../python/ddp" || fail "the package's types"
cat >"$work/right.py" <<'PROGRAM'
from typing import List, Optional

import ddp
import numpy

group: ddp.ProcessGroup = ddp.init_process_group(timeout=1.5)
group.all_reduce(numpy.ones(3), op=ddp.ReduceOp.max)
loss: float = group.all_reduce(1.5)
work: ddp.Work = group.iall_reduce(bytearray(3))
names: List[str] = group.all_gather_object("name")
half: Optional[ddp.ProcessGroup] = group.split(1)
version: Optional[int] = ddp.Checkpoint("file").load(group, [numpy.ones(3)])


async def wait() -> None:
    await work
PROGRAM
mypy "$work/right.py" || fail "the types of a right program"
for line in 'group.all_reduce("text")' 'group.broadcast(numpy.ones(3), root="0")' 'group.split(1).barrier()' 'work.result()'; do
  { cat "$work/right.py" && echo "$line"; } >"$work/wrong.py"
  mypy "$work/wrong.py" >"$work/errors" && fail "mypy takes $line"
  grep -q "wrong.py:$(wc -l <"$work/wrong.py"): error" "$work/errors" || fail "another error: $(cat "$work/errors")"
done
expect_no_process_left
