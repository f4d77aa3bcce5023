#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun does what PyTorch's own tests ask of torchrun, with --preload as without it. By hand under torchrun, which takes minutes:
#   python3 tests/interop/launcher_behaviours.py python3 -m torch.distributed.run
. "$(dirname "${BASH_SOURCE[0]}")/interop.sh"
[ "$(id -u)" = 0 ] || skip 'needs root: GPUs of its own'

env "$mark" "$python" "$interop/launcher_behaviours.py" "$real_ddprun" || fail 'a behaviour differs'
DDPRUN_PRELOAD=json env "$mark" "$python" "$interop/launcher_behaviours.py" "$real_ddprun" ||
  fail 'a behaviour differs with --preload'
expect_no_process_left
