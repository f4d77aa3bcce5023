#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun.toml in the current directory, or a file that is named, sets flags; the environment and the command
# line override it. A file that somebody else could have put there is not read.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

DDPRUN=$(realpath "$DDPRUN")
cd "$work"
show='echo "$RANK of $WORLD_SIZE, $TORCHELASTIC_MAX_RESTARTS restarts"'
cat >ddprun.toml <<'END'
# of this project
nproc_per_node = 2
max-restarts = 5
no_prefix = true
END

run sh -c "$show"
expect_exit 0
expect_stdout '^0 of 2, 5 restarts$'
expect_stdout '^1 of 2, 5 restarts$'
PET_MAX_RESTARTS=4 run --nproc_per_node 1 sh -c "$show"
expect_stdout '^0 of 1, 4 restarts$'
unset DDPRUN_LOG_FORMAT  # or it is named, too
PET_MAX_RESTARTS=4 run --dry_run true
expect_stdout '^settings: --nproc_per_node 2 \(ddprun\.toml:2\), --no_prefix \(ddprun\.toml:4\), --max_restarts 4 \(PET_MAX_RESTARTS\)$'
export DDPRUN_LOG_FORMAT=plain
run --config none sh -c "$show"
expect_stdout '^0 of 1, 0 restarts$'

mkdir -m 755 elsewhere
echo 'nproc_per_node = 3' >elsewhere/other.toml
DDPRUN_CONFIG=elsewhere/other.toml run sh -c "$show"
expect_stdout '^\[2\] 2 of 3, 0 restarts$'
run --config missing.toml true
expect_exit 2
expect_stderr '^ddprun: --config missing\.toml: cannot be read: No such file or directory$'

echo 'nproc_per_nod = 3' >elsewhere/ddprun.toml
cd elsewhere
run true
expect_exit 2
expect_stderr '^ddprun: ddprun\.toml:1: no flag is called nproc_per_nod; did you mean nproc_per_node\?$'

echo 'nproc_per_node = 2' >ddprun.toml
chmod 666 ddprun.toml
run sh -c "$show"
expect_exit 0
expect_stdout '^0 of 1, 0 restarts$'
expect_stderr '^ddprun: \./ddprun\.toml is not read: it can be written by everybody; to use it anyway: --config ddprun\.toml$'
if [ "$(id -u)" = 0 ]; then
  chmod 644 ddprun.toml
  chown 4711 ddprun.toml
  run sh -c "$show"
  expect_stdout '^0 of 1, 0 restarts$'
  expect_stderr 'is not read: it belongs to user 4711, and this is user 0;'
  run --config ddprun.toml sh -c "$show"
  expect_stdout '^\[1\] 1 of 2, 0 restarts$'
fi
expect_no_process_left
