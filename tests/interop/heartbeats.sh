#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Heartbeats of PyPI's sdnotify, as people use it, are seen; and that they have ended, though tqdm draws on.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

under ddprun --nproc_per_node 2 --hang_timeout 5 "$interop/heartbeats.py"
expect_exit 124
expect_stderr 'no rank has made progress for .*--hang_timeout'
expect_stderr '[0-9]+it/s'
expect_no_process_left
