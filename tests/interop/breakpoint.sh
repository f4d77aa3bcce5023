#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# torch.distributed.breakpoint(): one rank of several is debugged on the terminal.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

cat >"$work/debugged.py" <<'PY'
import sys
import torch.distributed as dist
dist.init_process_group("gloo")
which = int(sys.argv[1])
dist.breakpoint(which)
dist.barrier()
print(f"done {dist.get_rank()}")
dist.destroy_process_group()
PY

on_terminal <<END
type("$DDPRUN --nproc_per_node 2 $work/debugged.py 0\n")
expect(r"^\[0\] .*\(Pdb\) "), type("up\n")
expect(r"\(Pdb\) "), type("p which + 41\n")
expect(r"^41\$")  # behind the typed text
expect(r"\(Pdb\) "), type("c\n")
for _ in range(2):
    expect(r"^(\[[01]\] )?done [01]\$")  # rank 0 continues behind the typed text
expect(prompt)

type("$DDPRUN --nproc_per_node 2 --pdb 1 $work/debugged.py 1\n")
expect(r"\(Pdb\) "), type("up\n")
expect(r"\(Pdb\) "), type("p which + 41\n")
expect(r"^42\$")
expect(r"\(Pdb\) "), type("c\n")
expect("^done 1\$"), expect(prompt)
END
expect_no_process_left
