#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --pdb RANK gives the terminal to that rank: nothing of the others is shown, and Ctrl-C is for its debugger.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cat >"$work/train" <<'PY'
import os
rank = os.environ["RANK"]
print("rank", rank, "begins")
while rank == "1":
    breakpoint()
    break
PY

on_terminal <<END
type("$DDPRUN --nproc_per_node 2 --pdb 1 python3 $work/train\n")
expect("^rank 1 begins\$")
expect(r"\(Pdb\) "), type("p 'of ' + rank\n")
expect("^'of 1'\$")
expect(r"\(Pdb\) "), type("import time; print('sleeps'); time.sleep(600)\n")
expect("^sleeps\$"), type("\x03")
expect("KeyboardInterrupt")
expect(r"\(Pdb\) "), type("c\n")
shown = expect(prompt)
check("rank 0" not in screen, "another rank was shown")
check("stopping" not in screen, "the job was stopped")
type("echo code=\$?\n"), expect("^code=0\$"), expect(prompt)

# SIGQUIT stops all of it.
type("$DDPRUN --nproc_per_node 2 --pdb 1 python3 $work/train\n")
expect(r"\(Pdb\) "), type("\x1c")
expect("stopping . workers? ")
expect(prompt)
END
expect_no_process_left

run --nproc_per_node 2 --pdb 1 true
expect_exit 2
expect_stderr '^ddprun: --pdb 1 needs a terminal, and stdin or stdout of ddprun is not one$'
expect_no_process_left
