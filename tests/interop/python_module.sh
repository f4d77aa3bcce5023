#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `python -m ddprun`, as the wheel has it, beside `python -m torch.distributed.run`: the same workers, run by that Python.
# The wheel itself, which is compiled by another compiler, is tried by `packages: wheel`.
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"

# Lays it out as `pip install --target` does.
site=$work/site
mkdir -p "$site/bin" "$site/ddprun-0.1.0.dist-info"
cp -r "$interop/../../scripts/release/wheel/ddprun" "$site/"
ln -s "$real_ddprun" "$site/bin/ddprun"
printf 'Metadata-Version: 2.1\nName: ddprun\nVersion: 0.1.0\n' >"$site/ddprun-0.1.0.dist-info/METADATA"
export PYTHONPATH=$site
add_launcher python_module "$python" -m ddprun

cat >"$work/sum.py" <<'PROGRAM'
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
mine = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(mine)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RESTART_COUNT")
os.write(1, " ".join([str(mine.item()), sys.executable, *(os.environ[name] for name in names)]).encode() + b"\n")
dist.destroy_process_group()
os._exit(0)  # PyTorch 2.15 now and then aborts at the end of the interpreter, as in train.py
PROGRAM
for launcher in torchrun python_module; do
  under "$launcher" --nproc_per_node 2 "$work/sum.py"
  expect_exit 0
  sorted_stdout >"$work/$launcher.lines"
done
[ "$(wc -l <"$work/python_module.lines")" = 2 ] || fail "not two workers"
diff "$work/torchrun.lines" "$work/python_module.lines" >"$work/difference" || fail "$(cat "$work/difference")"
expect_no_process_left
