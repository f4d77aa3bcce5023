#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A port in use is one line that says what to do.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

on serve start serve --rdzv_endpoint "$here:29500"
wait_for_event serving
on node run --rdzv_endpoint "$here:29500" true
expect_exit 125
expect_stderr "^ddprun: cannot listen on $here:29500: Address already in use \(.* choose another port; .* is_host=false\); another ddprun of this host \(pid $(on serve agent_of)\) has it$"
[ "$(wc -l <"$err")" = 1 ] || fail "not one line"

# A node of the served job does what the line says.
run --rdzv_endpoint "$here:29500" --rdzv_conf is_host=false true
expect_exit 0
on serve finish
expect_exit 0
expect_no_process_left
