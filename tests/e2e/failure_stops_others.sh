#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One worker fails: the others are stopped, and the report names the one that failed first.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run --nproc_per_node 4 sh -c 'if [ "$RANK" = 2 ]; then echo so long >&2; exit 7; fi; sleep 600'
expect_exit 7
expect_stderr 'rank 2 failed first: exit 7'
expect_stderr 'so long'
expect_no_process_left
