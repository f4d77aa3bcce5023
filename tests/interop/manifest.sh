#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Manifests of all kinds pass strict validation: those of a fixed size from Kubernetes 1.29 on, elastic ones
# from 1.30 on, which has their successPolicy, and JobSet and TrainJob against the models of their releases.
# A wrong field is noticed. And YAML gives the program's arguments back.
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

for kind in job jobset trainjob; do
  sed 's/enableServiceLinks/enableServiceLink/' "$work/$kind" >"$work/wrong"
  ! check 1.29 wrong || fail "a wrong field of a $kind's pods was not noticed"
done
for field in network runtimeRef; do
  sed "s/$field/${field}s/" "$work/$([ $field = network ] && echo jobset || echo trainjob)" >"$work/wrong"
  ! check 1.29 wrong || fail "a wrong field, ${field}s, was not noticed"
done
checked=1
