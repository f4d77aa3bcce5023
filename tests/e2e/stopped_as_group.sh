#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Slurm and systemd send SIGTERM to all processes: guardian and agent get it, which is one request to stop. A second one
# kills at once.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# shellcheck disable=SC2016
stubborn=(sh -c 'trap "" TERM; echo up; while :; do sleep 1; done')
start --shutdown_timeout 1 "${stubborn[@]}"
wait_for_stdout up
kill -TERM "$(agent_of)"
wait_for_stderr 'stopping 1 worker \(SIGTERM\)'
kill -TERM "$ddprun"
finish
expect_exit 143
expect_stderr 'rank 0 did not stop within 1 s \(--shutdown_timeout\): killed'

start --shutdown_timeout 3600 "${stubborn[@]}"
wait_for_stdout up
kill -TERM "$(agent_of)"
wait_for_stderr 'stopping 1 worker \(SIGTERM\)'
kill -TERM "$(agent_of)"
finish
expect_exit 143
expect_no_process_left
