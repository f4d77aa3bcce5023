#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A failed worker's error file that cannot be read in time is left out of the report.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

library=$DDPRUN_BIN/libstalling_open.so
[ -e "$library" ] || skip "$library is not built: a sanitizer has to be loaded first"
command_prefix[only]="env LD_PRELOAD=$library STALLING_FILE=/error_"
run --nproc_per_node 2 sh -c '[ "$RANK" = 1 ] || exec sleep 600
  echo "{\"message\": \"ValueError: never read\"}" >"$TORCHELASTIC_ERROR_FILE"
  echo "on stderr" >&2
  exit 3'
expect_exit 3
expect_stderr '^ddprun: rank 1 failed first: exit 3 '
expect_stderr '^ *on stderr$'
expect_no_stderr 'never read'
expect_no_process_left
