#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Manifests of all kinds pass strict validation: those of a fixed size from Kubernetes 1.29 on, elastic ones
# from 1.30 on, which has their successPolicy, those for older versions from 1.25 on, and JobSet and TrainJob against
# the models of their releases. A wrong field is noticed. And YAML gives the program's arguments back.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

manifest() {  # manifest FILE KIND OPTIONS...
  "$DDPRUN" manifest "$2" --name train --image registry/train:1 --nproc_per_node 8 "${@:3}" \
    -- ./train "a \"b\": #\\" '$(HOME) $$' $'two\nlines\t' 'naïve ✓' '' '- x' >"$work/$1"
}

check() {  # check FIRST_VERSION FILE...
  (cd "$work" && "$python" "$interop/manifest.py" "$@" >checked 2>&1)
}

for kind in job jobset trainjob; do manifest "$kind" "$kind" --nnodes 4; done
for kind in job jobset; do manifest "elastic.$kind" "$kind" --nnodes 2:4 --secret train.secret; done
manifest cpu job --gpus 0
check 1.29 job jobset trainjob cpu || fail "$(cat "$work/checked")"
check 1.30 elastic.job elastic.jobset || fail "$(cat "$work/checked")"
! check 1.28 job || fail 'what 1.28 does not take was not noticed'
for kind in job jobset; do
  for version in 1.25 1.28; do
    manifest "$version.$kind" "$kind" --nnodes 2:4 --secret train.secret --kubernetes "$version"
  done
done
manifest 1.25.trainjob trainjob --nnodes 4 --kubernetes 1.25
check 1.25 1.25.job 1.25.jobset 1.25.trainjob || fail "$(cat "$work/checked")"
check 1.28 1.28.job 1.28.jobset || fail "$(cat "$work/checked")"

for kind in job jobset trainjob; do
  sed 's/enableServiceLinks/enableServiceLink/' "$work/$kind" >"$work/wrong"
  ! check 1.29 wrong || fail "a wrong field of a $kind's pods was not noticed"
done
for field in network runtimeRef; do
  sed "s/$field/${field}s/" "$work/$([ $field = network ] && echo jobset || echo trainjob)" >"$work/wrong"
  ! check 1.29 wrong || fail "a wrong field, ${field}s, was not noticed"
done
checked=1
