#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A job in the background does not read what is typed for the shell: its workers' stdin is empty. One in the
# foreground does.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

on_terminal <<END
type("$DDPRUN cat & wait %1; echo code=\$?\n")
expect("^code=0\$"), expect(prompt)
type("$DDPRUN cat\n")
expect("cat\$")
type("typed\n")
expect("^typed\$"), expect("^typed\$")  # echoed, and read
type("\x04")
expect(prompt)
END
expect_no_process_left
