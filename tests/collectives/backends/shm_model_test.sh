#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the models shm_rounds.pml, shm_ring.pml and shm_given_up.pml: in no interleaving does a rank read another's data too
# early or too late, or sleep forever; and the check finds the mistakes that BROKEN and other macros make.
set -euo pipefail
models=$(cd "$(dirname "$0")" && pwd)
command -v spin > /dev/null || { echo "spin is not installed" && exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# check MODEL MACROS...: what the model checker prints of the model with them. It cannot leave out orders where a rank may die.
check() {
  spin -a "${@:2}" "$models/$1.pml"
  local reduce=(-DNOREDUCE)
  [[ $* == *NOBODY_DIES* ]] && reduce=()
  cc -O1 -w -DSAFETY "${reduce[@]}" -DCOLLAPSE -o pan pan.c
  ./pan -m10000 -E
}

# expect_correct MODEL MACROS...: the model is searched to its end, and has no mistake.
expect_correct() {
  local found
  found=$(check "$@")
  grep -q 'errors: 0' <<< "$found" || { echo "$found" && exit 1; }
  if grep -Eq 'max search depth too small|Search not completed' <<< "$found"; then
    echo "the model was not searched to its end: $found" && exit 1
  fi
}

# expect_mistake MODEL MACRO: the check finds the mistake that it makes.
expect_mistake() {
  local found
  found=$(check "$@")
  grep -q 'assertion violated' <<< "$found" || { echo "$* is not found:" && echo "$found" && exit 1; }
}

expect_correct shm_rounds
expect_correct shm_rounds -DRANKS=3 -DROUNDS=1 -DNOBODY_DIES
expect_correct shm_rounds -DONE_WAY -DROUNDS=2
expect_correct shm_rounds -DONE_WAY -DNOBODY_DIES
expect_correct shm_rounds -DONE_WAY -DROUNDS=5 -DAHEAD=2 -DNOBODY_DIES -DNOBODY_SLEEPS
expect_correct shm_rounds -DONE_WAY -DRANKS=3 -DROUNDS=2 -DNOBODY_DIES -DNOBODY_SLEEPS
expect_mistake shm_rounds -DBROKEN
expect_mistake shm_rounds -DONE_WAY -DTOO_FAR -DNOBODY_DIES
expect_mistake shm_rounds -DCALLS_OF_ONE_ROUND
expect_correct shm_ring
expect_mistake shm_ring -DBROKEN
expect_mistake shm_ring -DSTALE
expect_mistake shm_ring -DCROWDED
expect_correct shm_given_up
expect_mistake shm_given_up -DSENDER_WITHOUT_FENCE
expect_mistake shm_given_up -DRECEIVER_WITHOUT_FENCE
expect_mistake shm_given_up -DONCE
expect_mistake shm_given_up -DTAKEN_FIRST
