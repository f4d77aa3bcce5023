#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A second signal ends ddprun also when the reader of its output no longer reads.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mkfifo "$work/fifo"
exec 3<>"$work/fifo"  # holds the pipe open and never reads
file=$out out=$work/fifo
start --nproc_per_node 2 --shutdown_timeout 3600 seq 1000000
out=$file
wait_for_event worker_started '"rank":1'
kill -INT "$ddprun"
wait_for_event worker_ended '"rank":0'
wait_for_event worker_ended '"rank":1'
kill -INT "$ddprun"
finish
expect_exit 130
expect_stderr 'some output is lost: stdout was not read while workers were killed$'
expect_no_process_left
