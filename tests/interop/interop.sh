# SPDX-License-Identifier: Apache-2.0
# What the tests with real PyTorch and JAX source: ../e2e/common.sh, and
#
#   under LAUNCHER OPTIONS... PROGRAM ARGS...   `run` with this launcher, which all helpers are about
#                                               from then on:
#       torchrun       PyTorch's newest
#       ddprun
#       old_torchrun   of Debian 12's PyTorch 1.13
#       old_ddprun     with workers of that PyTorch
#   proofs         prints torchrun, under which each test proves itself first. Not under a sanitizer:
#                  there the time is ddprun's, and the Release build has run the same test
#   needs_old_torch        skips the test where there is no PyTorch 1.13
#   said                   prints the lines of stdout, sorted, without who said them. torchrun's tee
#                          tells that in the middle of a line, too, when it has read the first half
#   scratch                prints a new, empty folder
#   free_port              prints one that is free on all addresses, as torchrun needs it
#
# $python is the interpreter that has PyTorch and JAX, and python3 in PATH, too. Without the
# environment that scripts/setup --interop makes, each test is skipped.
# shellcheck shell=bash
interop=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
. "$interop/../e2e/common.sh"

environment=$("$interop/../../scripts/interop-env" --where)
[ -n "$environment" ] || skip "no PyTorch: scripts/setup --interop gets it"
python=$environment/bin/python3
old_python=/usr/bin/python3
deadline=${DDPRUN_TEST_DEADLINE:-200}  # importing PyTorch takes a busy machine long
real_ddprun=$(realpath "$DDPRUN")

unset PYTHON_EXEC
export PATH=$environment/bin:$PATH OMP_NUM_THREADS=1 TMPDIR=$work GLOO_SOCKET_IFNAME=lo
export PYTHONDONTWRITEBYTECODE=1

# They take ddprun's place in `start`, whose --events they do not know.
stand_in() {  # stand_in NAME COMMAND...
  printf '#!/bin/sh\nshift 2\nexec %s "$@"\n' "${*:2}" >"$work/$1"
  chmod +x "$work/$1"
}
stand_in torchrun "$python" -m torch.distributed.run
# The old one stumbles over its own defaults of --redirects and --tee under Python 3.11.
stand_in old_torchrun "$old_python" -m torch.distributed.run --redirects 1 --tee 1 \
  --monitor_interval 0.1

under() {
  on "$1" true
  case $1 in
    ddprun) DDPRUN=$real_ddprun run "${@:2}" ;;
    old_ddprun) DDPRUN=$real_ddprun PYTHON_EXEC=$old_python run "${@:2}" ;;
    *)
      DDPRUN=$work/$1 run "${@:2}"
      end_leftovers
      ;;
  esac
}

end_leftovers() {  # what torchrun leaves is not tested here
  local pid
  for pid in $(survivors); do kill -KILL "$pid" 2>/dev/null || true; done
}

proofs() {
  [ -n "${DDPRUN_INTEROP_PROVED:-}" ] || echo torchrun
}

needs_old_torch() {
  "$old_python" -c 'import torch; assert torch.__version__.startswith("1.13")' 2>/dev/null ||
    skip "no PyTorch 1.13, Debian 12's python3-torch"
}

said() {
  sed 's/\[default[0-9]*\]://g; s/^\[[0-9]*\] //' "$out" | sort
}

scratch() {
  mktemp -d "$work/scratch.XXXXXX"
}

free_port() {
  "$python" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}
