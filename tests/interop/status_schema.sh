#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The output of `ddprun status --json` for running jobs is valid by the schema in the docs.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
export XDG_RUNTIME_DIR=$work/run schema=$interop/../../docs/status.schema.json
mkdir -m 700 "$XDG_RUNTIME_DIR"

is_valid() {
  "$DDPRUN" status --json "$ddprun" >"$work/status.json" 2>/dev/null && grep -q "$1" "$work/status.json" &&
    "$python" -c '
import json, os, sys
from jsonschema import Draft202012Validator
schema = json.load(open(os.environ["schema"]))
Draft202012Validator.check_schema(schema)
Draft202012Validator(schema).validate(json.load(open(sys.argv[1])))' "$work/status.json"
}

on a start "${quick[@]}" --nnodes 2 --rdzv_endpoint "$here:29500" --nproc_per_node 2 sleep 600
on a wait_until is_valid '"waiting":"1 of 2 nodes'
on b start "${quick[@]}" --nnodes 2 --rdzv_endpoint "$here:29500" --nproc_per_node 2 sleep 600
for node in a b; do on "$node" wait_until is_valid '"rank":3'; done
kill -STOP "$(worker_of)"
on a wait_until is_valid '"state":"stopped"'
for node in a b; do kill -TERM "${pids[$node]}"; done
for node in a b; do on "$node" finish; on "$node" expect_exit 143; done
expect_no_process_left
