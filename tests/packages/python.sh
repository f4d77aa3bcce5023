#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The package ddp for Python: pip makes a wheel from the sources. With the wheel and no compiler in PATH, each CPython
# from 3.9 on that is at hand runs a job, and a program of PyTorch that does not import ddp uses its backend. pip takes
# each file away again.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

"$source/scripts/release/package-env" >&2
PATH=$("$source/scripts/release/package-env" --where):$PATH SKBUILD_BUILD_DIR=$work/build \
  pip --quiet --disable-pip-version-check wheel --no-index --no-deps --no-build-isolation --wheel-dir "$packages" \
  "$source/python"
cd "$work"
cat >sum.py <<'END'
import array
import ddp
with ddp.init_process_group() as group:
    numbers = array.array("d", [group.rank + 1.0])
    group.all_reduce(numbers)
    print(numbers[0], group.all_gather_object(group.rank))
END
cat >torch_sum.py <<'END'
import torch
import torch.distributed as dist
dist.init_process_group("ddp")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
model(torch.ones(1, 4)).sum().backward()
number = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(number)
print(number.item(), dist.get_backend())
dist.destroy_process_group()
END

job() {  # job PROGRAM LINE: both ranks of the program print the line
  env -i PATH="$work/venv/bin" HOME="$work" OMP_NUM_THREADS=1 "$DDPRUN_BUILD/bin/ddprun" --nproc_per_node 2 \
    --no_prefix venv/bin/python "$1" >out 2>err || fail "$($python --version), $1: $(cat err)"
  [ "$(cat out)" = "$2"$'\n'"$2" ] || fail "$($python --version), $1 printed: $(cat out)"
}

install() {  # into a new environment of $python
  rm -rf venv
  "$python" -m venv venv
  find venv ! -type d ! -name '*.pyc' | sort >before
  venv/bin/pip --quiet --disable-pip-version-check install --no-index "$packages"/*.whl
}

for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 /usr/bin/python3; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
  install
  job sum.py '3.0 [0, 1]'
done

environment=$("$source/scripts/interop-env" --where)
if [ -n "$environment" ]; then
  python=$environment/bin/python3
  install
  site=$(echo venv/lib/python3*/site-packages)
  echo "$environment/${site#venv/}" >"$site/torch.pth"
  job torch_sum.py '3 ddp'
  rm "$site/torch.pth"
fi
venv/bin/pip --quiet --disable-pip-version-check uninstall --yes ddprun-ddp
find venv ! -type d ! -name '*.pyc' | sort | diff before - || fail 'uninstalling left something'
