#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel: the same bytes each time, a tag that is true; a clean Debian 13 makes it, too; pip puts ddprun on PATH, for
# Debian 11's Python, too, and takes each file away again; python -m ddprun runs what python -m torch.distributed.run
# runs, with that Python.
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

portable_tools
wheel=$(package wheel)
DDPRUN_PACKAGES=$work/again package wheel >"$work/second.txt"
cmp "$wheel" "$(cat "$work/second.txt")" || fail 'two wheels of one build differ'
"$("$source/scripts/release/package-env" --where)/auditwheel" show "$wheel" | tr '\n' ' ' >"$work/audit"
oldest=$(sed -n 's/.*consistent with the following platform tag: *"manylinux_2_\([0-9]*\)_.*/\1/p' "$work/audit")
[ "${oldest:-99}" -le 28 ] || fail "the tag is not true: $(cat "$work/audit")"

cd "$work"
/usr/bin/python3 -m venv venv
find venv ! -type d | sort >before
venv/bin/pip --quiet --disable-pip-version-check install --no-index "$wheel"
runs_a_job venv/bin/ddprun
runs_a_job venv/bin/python -m ddprun
echo 'import sys; print(sys.executable)' >which.py
[ "$(venv/bin/python -m ddprun which.py 2>/dev/null)" = "$work/venv/bin/python" ] || fail 'workers have another Python'
rm which.py
venv/bin/pip --quiet --disable-pip-version-check uninstall --yes ddprun
find venv ! -type d | sort | diff before - || fail 'uninstalling left something'

environment=$("$source/scripts/interop-env" --where)
if [ -n "$environment" ]; then
  "$environment/bin/pip" --quiet --disable-pip-version-check install --no-index --target site "$wheel"
  cat >sum.py <<'END'
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
mine = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(mine)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RESTART_COUNT")
print(mine.item(), *(os.environ[name] for name in names))
END
  for launcher in torch.distributed.run ddprun; do
    GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 PYTHONPATH=$work/site "$environment/bin/python" -m $launcher \
      --nproc_per_node 2 sum.py 2>"$launcher.err" | sed 's/^\[[01]\] //' | sort >$launcher.out || fail "$(cat $launcher.err)"
  done
  [ -s ddprun.out ] && diff torch.distributed.run.out ddprun.out || fail 'torchrun and python -m ddprun differ'
fi

# A system with nothing else makes it, too, and needs no compiler to install it.
clean_root trixie
mkdir "$root/src"
tar --create --directory "$source" --exclude './build*' --exclude ./.git . | tar --extract --directory "$root/src"
in_root sh -c 'cd /src && scripts/package wheel' >"$work/log" 2>&1 || fail "on Debian 13: $(tail -n 30 "$work/log")"
grep -q '^setup: 2 of 3, downloading .* packages, .* to download, .* on the disk$' "$work/log" || fail 'setup is silent'
in_root sh -c 'python3 -m venv /venv && /venv/bin/pip --quiet install --no-index /src/build/packages/*.whl'
runs_a_job in_root /venv/bin/ddprun
rm -rf --one-file-system "$root"

clean_root bullseye python3 python3-pip
cp "$wheel" "$root/tmp/"
in_root sh -c 'pip3 --quiet install --no-index /tmp/*.whl' || fail "pip of Debian 11 does not install it"
runs_a_job in_root ddprun
runs_a_job in_root python3 -m ddprun
