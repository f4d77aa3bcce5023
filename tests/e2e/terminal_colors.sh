#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prefixes and failures have colours on a terminal, and elsewhere only if somebody asks for them.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
unset NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR

on_terminal <<END
line = r"^\x1b\[36m\[0\] \x1b\[0mx\$"
type("export TERM=xterm\n"), expect(prompt)
type("$DDPRUN --nproc_per_node 2 echo x\n")
expect(line), expect(prompt)
type("$DDPRUN false\n")
expect(r"^\x1b\[31mddprun: rank 0 failed first: .*\x1b\[0m\$"), expect(prompt)
for plain in "NO_COLOR=1", "CLICOLOR=0", "TERM=dumb", "DDPRUN_COLOR=never":
    type(f"{plain} $DDPRUN --nproc_per_node 2 echo x\n")
    expect(r"^\[0\] x\$"), expect(prompt)
type("NO_COLOR=1 $DDPRUN --color always --nproc_per_node 2 echo x\n")
expect(line), expect(prompt)
END

coloured=$'^\033\\[36m\\[0\\] \033\\[0mx$'
run --nproc_per_node 2 echo x
expect_stdout '^\[0\] x$'
for forced in CLICOLOR_FORCE=1 FORCE_COLOR=3 DDPRUN_COLOR=always; do
  (export "${forced?}"; run --nproc_per_node 2 echo x; expect_stdout "$coloured"; expect_no_process_left)
done
NO_COLOR=1 FORCE_COLOR=1 run --nproc_per_node 2 echo x
expect_stdout '^\[0\] x$'
FORCE_COLOR=0 run --nproc_per_node 2 echo x
expect_stdout '^\[0\] x$'
run --color always false
expect_stderr $'^\033\\[31mddprun: rank 0 failed first'
run --color red true
expect_exit 2
expect_stderr "^ddprun: --color expects auto, never or always, not 'red'$"
expect_no_process_left
