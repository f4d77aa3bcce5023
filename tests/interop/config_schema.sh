#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The schema of ddprun.toml is a JSON schema. It accepts the file of docs/config.md, which ddprun reads, and refuses what
# ddprun refuses.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

cd "$work"
"$DDPRUN" help --schema >schema.json
sed -n '/^    nproc_per_node = /,/^$/s/^    //p' "$interop/../../docs/config.md" >right
[ "$(wc -l <right)" -ge 5 ] || fail 'the page has no file'
echo 'nproc_per_nod = 4' >misspelt
echo 'tty = "sometimes"' >wrong_value
echo 'no_prefix = 1' >wrong_type
for file in right misspelt wrong_value wrong_type; do
  accepted=yes valid=yes
  env "$mark" "$DDPRUN" --config $file --dry_run true >/dev/null 2>$file.err || accepted=no
  "$python" -c '
import json, sys, tomllib
from jsonschema import Draft7Validator
schema = json.load(open("schema.json"))
Draft7Validator.check_schema(schema)
sys.exit(not Draft7Validator(schema).is_valid(tomllib.load(open(sys.argv[1], "rb"))))' $file || valid=no
  [ "$accepted" = $valid ] || fail "ddprun: $accepted, schema: $valid: $(cat $file $file.err)"
  [ "$valid" = "$([ $file = right ] && echo yes || echo no)" ] || fail "$file: $valid"
done
expect_no_process_left
