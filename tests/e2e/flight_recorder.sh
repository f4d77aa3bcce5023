#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun reads what PyTorch's recorders have of NCCL's calls, with the functions of each release, and does without in a
# release that has none. The workers have a package torch with these functions and what a release writes, as NCCL itself
# needs GPUs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v python3 >/dev/null || skip "there is no python3"
export PYTHONPATH=$work PYTHONDONTWRITEBYTECODE=1
mkdir -p "$work/torch/distributed" "$work/torch/_C"
cat >"$work/torch/__init__.py" <<'END'
import os
import torch._C

__version__ = '2.4.0' if os.environ.get('OTHER_RELEASE') == os.environ['RANK'] else '2.15.0'
END
: >"$work/torch/distributed/__init__.py"
echo 'from . import _distributed_c10d' >"$work/torch/_C/__init__.py"
cat >"$work/torch/distributed/distributed_c10d.py" <<'END'
import os
import torch


class _world:
    pg_names = {'world': '0', 'pair': '1'}
    pg_group_ranks = {'world': {0: 0, 1: 1, 2: 2}, 'pair': {0: 0, 1: 1}}


def get_backend_config(group):
    return 'cuda:nccl'


def _new_process_group_helper(*sizes):
    if os.environ['RANK'] == '2':
        del _world.pg_group_ranks['pair']


def init_process_group():
    _new_process_group_helper(3)


def all_reduce():
    raise RuntimeError('Watchdog caught collective operation timeout: Timed out')
END
# Rank 1 makes another fourth call than the others, in the group of all; the call in the pair has ended.
cat >"$work/calls.py" <<'END'
import os


def entry(number, name, sizes, state, group='0', retired=False, is_p2p=False):
    return {'process_group': (group, 'default_pg'), 'collective_seq_id': number, 'p2p_seq_id': 0, 'is_p2p': is_p2p,
            'profiling_name': 'nccl:' + name, 'input_sizes': sizes, 'state': state, 'retired': retired}


size = None  # as the recorder reads it, once


def dump():
    global size
    size = size or os.environ.get('TORCH_NCCL_TRACE_BUFFER_SIZE', os.environ.get('TORCH_FR_BUFFER_SIZE', '0'))
    if size == '0':
        return {'version': '2.10', 'entries': []}
    rank = int(os.environ['RANK'])
    if 'SLOW' in os.environ:  # rank 1 begins each call 0.4 s after the others
        return {'entries': [dict(entry(number, 'all_reduce', ((4, 5),), 'completed', retired=True),
                                 time_created_ns=(18 * 10**9 + 5 * number + 4 * (rank == 1)) * 10**8)
                            for number in range(1, 21)]}
    entries = [entry(number, 'all_reduce', ((4, 5),), 'completed', retired=True) for number in (1, 2, 3)]
    if rank < 2:
        entries += [entry(1, 'broadcast', ((4,),), 'completed', '1', retired=True),
                    entry(1, 'send 0->1', ((4,),), 'scheduled', '1', is_p2p=True)]
    # Retired, and not completed: it has timed out.
    last = ('_all_gather_base', ((7,),)) if rank == 1 and 'TYPES' not in os.environ else ('all_reduce', ((4, 5),))
    types = ['Double' if rank == 1 and 'TYPES' in os.environ else 'Float']
    return {'version': '2.10', 'entries': entries + [{**entry(4, *last, 'started', retired=rank == 0), 'input_dtypes': types}]}
END
cat >"$work/train.py" <<'END'
import os
import sys
import time
import torch.distributed.distributed_c10d as c10d

environment = dict(os.environ)
c10d.init_process_group()
assert os.environ == environment and not any('BUFFER_SIZE' in name for name in environment)
if sys.argv[1] == 'exit':
    sys.exit(7)
open(f'{sys.argv[2]}/{os.environ["RANK"]}', 'w').close()
if sys.argv[1] == 'wait' or os.environ['RANK'] != '0':
    time.sleep(600)
while len(os.listdir(sys.argv[2])) < 3:
    time.sleep(0.01)
c10d.all_reduce()
END
functions_of() {
  case $1 in
    none) ;;
    pickle) echo 'def _dump_nccl_trace(calls, stacks, active): return pickle.dumps(dump())' ;;
    json) echo 'def _dump_nccl_trace_json(calls, active): return json.dumps(dump()).encode()' ;;
    hooked)
      functions_of empty
      echo 'def _dump_fr_trace_json(calls, active, backend): return json.dumps(dump() if backend == "nccl2" else {}).encode()'
      ;;
    empty) echo 'def _dump_nccl_trace_json(calls, active): return b"{}"' ;;
    broken) echo 'def _dump_nccl_trace_json(calls): return b"{"' ;;
  esac
}
release() { (echo 'import json, pickle' && echo 'from calls import dump' && functions_of "$1") >"$work/torch/_C/_distributed_c10d.py"; }

for functions in pickle json hooked; do
  release $functions
  mkdir "$work/$functions"
  run --nproc_per_node 3 "$work/train.py" fail "$work/$functions"
  expect_exit 1
  expect_stderr '^ddprun: rank 1 \(.*\) is the likely cause: in #4 _all_gather_base\[7\], (.*, )?while ranks 0, 2 waited in #4 all_reduce\[20\]$'
done

# The same call with elements of another type.
mkdir "$work/types"
TYPES=1 run --nproc_per_node 3 "$work/train.py" fail "$work/types"
expect_stderr '^ddprun: rank 1 \(.*\) is the likely cause: in #4 all_reduce\[20 Double\], (.*, )?while ranks 0, 2 waited in #4 all_reduce\[20\]$'

# Releases that differ are named, too.
releases="ranks 0, 1 \($(hostname)\) have PyTorch 2.15.0, rank 2 \($(hostname)\) has PyTorch 2.4.0"
mkdir "$work/releases"
OTHER_RELEASE=2 run --nproc_per_node 3 "$work/train.py" fail "$work/releases"
expect_stderr "^ddprun: rank 1 .* waited in #4 all_reduce\[20\]; $releases$"

release json
OTHER_RELEASE=2 on waits start --nproc_per_node 3 --rdzv_id recorded "$work/train.py" wait "$work/torch"
in_call() { "$DDPRUN" status recorded >"$work/status" 2>&1 && [ "$(grep -c 'in #4' "$work/status")" = 3 ]; }
wait_until in_call
grep -q 'in #4 _all_gather_base\[7\]' "$work/status" || fail "rank 1 is in another call: $(cat "$work/status")"
grep -qEx "$releases" "$work/status" || fail "the releases are not named: $(cat "$work/status")"
kill -TERM "$ddprun"
finish

# A rank that the others wait for again and again.
mkdir "$work/slow"
SLOW=1 on slow start --nproc_per_node 3 --rdzv_id slow "$work/train.py" wait "$work/slow"
is_named() {
  "$DDPRUN" status slow >"$work/status" 2>&1
  grep -qx "rank 1 ($(hostname)) is slow: the others waited 7.6 s of 9.5 s for it, the last in 19 of 19 collectives" "$work/status"
}
wait_until is_named
sed -n 4p "$work/status" | grep -q '^1 ' || fail "rank 1 is not the first: $(cat "$work/status")"
"$DDPRUN" status --json slow | grep -q '"slow":{"calls":19,"last":19,"rank":1,"seconds":9.5,"waited":7.6}' || fail 'the JSON does not name rank 1'
kill -TERM "$ddprun"
finish

# Without the recorder nothing else changes.
for functions in none empty broken; do
  release $functions
  on only run "$work/train.py" exit
  expect_exit 7
  [ "$(grep -vc '^ddprun: \|^  ' "$err")" = 0 ] && [ ! -s "$out" ] || fail "something was printed: $(cat "$out" "$err")"
done
expect_no_process_left
