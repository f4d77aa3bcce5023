#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the model shm_rounds.pml: in no interleaving does a rank read another's data too early or too late, or sleep for
# ever; and the check finds the mistake that BROKEN makes.
set -euo pipefail
model=$(cd "$(dirname "$0")" && pwd)/shm_rounds.pml
command -v spin > /dev/null || { echo "spin is not installed" && exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# check MACROS...: what the model checker prints of the model with them.
check() {
  spin -a "$@" "$model"
  cc -O1 -w -DSAFETY -DNOREDUCE -DCOLLAPSE -o pan pan.c
  ./pan -m10000 -E
}

correct=$(check)
grep -q 'errors: 0' <<< "$correct" || { echo "$correct" && exit 1; }
if grep -Eq 'max search depth too small|Search not completed' <<< "$correct"; then
  echo "the model was not searched to its end: $correct" && exit 1
fi
broken=$(check -DBROKEN)
grep -q 'assertion violated' <<< "$broken" || { echo "BROKEN is not found:" && echo "$broken" && exit 1; }
