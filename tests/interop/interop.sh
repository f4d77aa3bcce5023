# SPDX-License-Identifier: Apache-2.0
# The tests with real PyTorch and JAX source this: ../e2e/common.sh, and
#
#   under LAUNCHER OPTIONS... PROGRAM ARGS...   `run` with this launcher, to which all helpers apply
#                                               from then on:
#       torchrun       PyTorch's newest
#       ddprun
#       old_torchrun   of Debian 12's PyTorch 1.13
#       old_ddprun     with workers of that PyTorch
#   reference_launcher     prints torchrun, which each test runs under first. Empty under sanitizers, to
#                          save time, as the Release build has run it, and where this test has passed with the
#                          same files and the same PyTorch before: what torchrun does has nothing to do with ddprun
#   needs_old_torch        skips the test where there is no PyTorch 1.13
#   sorted_stdout          prints the sorted lines of stdout, without prefixes. torchrun's tee writes
#                          one within a line, too, when it has read only a part
#   new_folder             prints a new, empty folder
#   free_port              prints a port that is free on all addresses, as torchrun needs it
#
# $python is the interpreter with PyTorch and JAX, as is python3 in PATH. Without the environment of
# scripts/setup --interop each test is skipped.
# shellcheck shell=bash
interop=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
. "$interop/../e2e/common.sh"

environment=$("$interop/../../scripts/interop-env" --where)
[ -n "$environment" ] || skip "no PyTorch: scripts/setup --interop installs it"
python=$environment/bin/python3
old_python=/usr/bin/python3
deadline=${DDPRUN_TEST_DEADLINE:-200}  # importing PyTorch is slow on a busy machine
real_ddprun=$(realpath "$DDPRUN")

unset PYTHON_EXEC
export PATH=$environment/bin:$PATH OMP_NUM_THREADS=1 TMPDIR=$work GLOO_SOCKET_IFNAME=lo
export PYTHONDONTWRITEBYTECODE=1

# They replace ddprun in `start`, and drop its --events.
add_launcher() {  # add_launcher NAME COMMAND...
  printf '#!/bin/sh\nshift 2\nexec %s "$@"\n' "${*:2}" >"$work/$1"
  chmod +x "$work/$1"
}
add_launcher torchrun "$python" -m torch.distributed.run
# The old one fails on its own defaults of --redirects and --tee under Python 3.11.
add_launcher old_torchrun "$old_python" -m torch.distributed.run --redirects 1 --tee 1 \
  --monitor_interval 0.1

under() {
  on "$1" true
  case $1 in
    ddprun) DDPRUN=$real_ddprun run "${@:2}" ;;
    old_ddprun) DDPRUN=$real_ddprun PYTHON_EXEC=$old_python run "${@:2}" ;;
    *)
      DDPRUN=$work/$1 run "${@:2}"
      kill_leftovers
      ;;
  esac
}

kill_leftovers() {  # processes that torchrun leaves are not tested here
  local pid
  for pid in $(survivors); do kill -KILL "$pid" 2>/dev/null || true; done
}

# Exists if this test has passed, with torchrun's part of it: named by all that this part reads.
proof=$environment/proved/$(basename "$0" .sh)-$({
  cd "$interop"
  cat "$(basename "$0")" interop.sh ../e2e/common.sh "$environment/made-from.txt"
  grep -oE '[a-z_0-9]+\.py' "$(basename "$0")" | sort -u | xargs cat 2>/dev/null || true  # it may name some that it writes
  dpkg-query -W python3-torch 2>/dev/null || true
} | sha256sum | cut -c1-32)

reference_launcher() {
  [ -n "${DDPRUN_INTEROP_PROVED:-}" ] || [ -e "$proof" ] || echo torchrun
}

prove_and_clean_up() {
  local status=$?
  set +e  # a proof that cannot be written is missed by no test
  if [ $status = 0 ] && [ -n "$checked" ] && [ -z "${DDPRUN_INTEROP_PROVED:-}" ]; then
    mkdir -p "${proof%/*}"
    rm -f "${proof%-*}"-*
    : >"$proof"
  fi
  (exit $status)
  clean_up  # which reads the status
}
trap prove_and_clean_up EXIT

needs_old_torch() {
  "$old_python" -c 'import torch; assert torch.__version__.startswith("1.13")' 2>/dev/null ||
    skip "no PyTorch 1.13, Debian 12's python3-torch"
}

sorted_stdout() {
  sed 's/\[default[0-9]*\]://g; s/^\[[0-9]*\] //' "$out" | sort
}

new_folder() {
  mktemp -d "$work/scratch.XXXXXX"
}

# Below those that the kernel gives to connections, of which one may come between this and its use.
free_port() {
  "$python" - <<'PROGRAM'
import random, socket
while True:
    port = random.randrange(20000, 32000)
    try:
        socket.socket().bind(("", port))
    except OSError:
        continue
    print(port)
    break
PROGRAM
}
