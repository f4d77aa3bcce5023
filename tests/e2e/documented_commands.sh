#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each command of README and docs/ runs as it is written, or is named in documented_commands.py with the test that
# runs it, or the reason why none can. Hosts and GPUs that the commands name are made up here: all names are this
# host's, the driver is one of the tests.
[ "$(id -u)" = 0 ] || { echo "needs root: names of hosts and GPUs of its own" && exit 77; }
if [ -z "${DOCUMENTED_OWN_MOUNTS:-}" ]; then
  DOCUMENTED_OWN_MOUNTS=1 exec unshare --mount --net --uts "$0" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip "there is no python3"
command -v ip >/dev/null || skip "there is no ip command (package iproute2)"
[ -d /proc/driver ] || skip "no /proc/driver here"

hostname node0
ip link set lo up
ip link add net0 type veth peer name net1 || skip "no veth in this kernel"
ip address add 10.0.0.1/24 dev net0
ip link set net0 up && ip link set net1 up
echo "127.0.0.1 localhost node0 node1 gpu1 gpu2 gpu-01 gpu-02 login e1 e2 e3" >"$work/hosts"
mount --bind "$work/hosts" /etc/hosts
mount -t tmpfs none /proc/driver
mkdir -p -m 700 "/tmp/ddprun-$(id -u)"
mount -t tmpfs -o mode=700 none "/tmp/ddprun-$(id -u)"  # no other jobs of this host
mkdir -p /proc/driver/nvidia/gpus/0000:{17,3b}:00.0
mkdir "$work/lib" "$work/run"
ln -s "$FAKE_NVML_LIBRARY" "$work/lib/libnvidia-ml.so.1"
export LD_LIBRARY_PATH=$work/lib FAKE_NVML="gpu gpu" XDG_RUNTIME_DIR=$work/run TMPDIR=$work

here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
mkdir "$work/place" "$work/bin"
cd "$work/place"
ln -s "$(realpath "$DDPRUN_BIN/..")" build
ln -s "$here/../../scripts" "$here/../../tests" .
ln -s "$(realpath "$DDPRUN")" "$(realpath "$DDPRUN_BIN/allreduce_hello")" "$work/bin/"
# To these hosts: the transport itself is what the tests of ssh are for.
printf '#!/bin/sh\nwhile :; do case $1 in -o | -p) shift 2 ;; -*) shift ;; *) break ;; esac; done\nshift\nexec sh -c "$*"\n' \
  >"$work/bin/ssh"
printf '#!/bin/sh\necho "$RANK of $WORLD_SIZE"\n' >train
printf 'import os\nprint(os.environ["RANK"], "of", os.environ["WORLD_SIZE"])\n' >train.py
printf 'gpu1\ngpu2\n' >hosts.txt
chmod +x train "$work/bin/ssh"
export PATH=$work/bin:$PATH WANDB_API_KEY=k OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

env "$mark" python3 "$here/documented_commands.py" "$here/../.." || fail "a command of the docs does not run"
expect_no_process_left
