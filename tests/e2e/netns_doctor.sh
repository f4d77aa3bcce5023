#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun doctor on three hosts: nothing is wrong, or much is. Then every node ends with 1, and one
# of them names each fault, its node and the remedy.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
command -v python3 >/dev/null || skip "there is no python3"
hosts 3 4

# A script that sets up a host's own files; $1 is the host's number.
cat >"$work/.enter" <<END
mount --bind "$work/hosts" /etc/hosts
mount -t tmpfs -o size=2g tmpfs /dev/shm
mount -t tmpfs tmpfs /proc/driver
mkdir -p /proc/driver/nvidia/gpus/0000:01:00.0
echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5' >/proc/driver/nvidia/version
echo 'Model: 	 NVIDIA H100' >/proc/driver/nvidia/gpus/0000:01:00.0/information
export CUDA_VISIBLE_DEVICES=0
hostname "node\$1"
[ ! -e "$work/.faults\$1" ] || . "$work/.faults\$1"
shift
exec "\$@"
END
mkdir "$work/logs"
for version in 2.3.1 2.4.0; do
  for package in torch jaxlib nvidia_nccl_cu12; do
    mkdir -p "$work/site-$version/$package-$version.dist-info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "${package//_/-}" "$version" \
      >"$work/site-$version/$package-$version.dist-info/METADATA"
  done
done
mkdir "$work/bin"
printf '#!/bin/sh\n%s "$@" | sed "s/^Python .*/Python 3.9.9/"\n' "$(command -v python3)" >"$work/bin/python3"
chmod +x "$work/bin/python3"
version=$("$DDPRUN" --version | sed -n '1s/ddprun //p')
sed "s/${version//./\\.}/${version%?}x/g" "$DDPRUN" >"$work/bin/ddprun"  # of the same length
chmod +x "$work/bin/ddprun"
export PYTHONPATH=$work/site-2.4.0
echo 'print("one")' >"$work/train.py"
echo 'print("two")' >"$work/other.py"
doctor() {  # doctor COMMAND HOST [OPTION...]
  on "$2" "$1" doctor --nnodes 3 --node_rank "$(($2 - 1))" --rdzv_endpoint node1 "${quick[@]}" \
    --log_dir "$work/logs" "${@:3}" "$work/train.py"
}

doctor start 1 --json
doctor start 2
doctor run 3
expect_exit 0
for host in 1 2; do on $host finish; on $host expect_exit 0; done
on 1 expect_stdout '"ok": true'
on 1 expect_stdout '"host": "node3"'
on 1 expect_no_stdout '"fail"'
python3 -m json.tool "$work/.1.stdout" >/dev/null || fail "the report is not JSON"

ip -n "$net-2" link set eth0 mtu 1400
ip -n "$net-2" link add ib0 type veth peer name far0
ip -n "$net-2" addr add 192.168.77.2/24 dev ib0
ip -n "$net-2" link set ib0 up
cat >"$work/.faults2" <<END
mount -t tmpfs -o size=16m tmpfs /dev/shm
mount --bind "$work/other.py" "$work/train.py"
ulimit -n 512
rm -r /proc/driver/nvidia/gpus/*
mkdir /proc/driver/nvidia/gpus/0000:02:00.0
echo 'Model: 	 NVIDIA A100' >/proc/driver/nvidia/gpus/0000:02:00.0/information
sed -i s/550/535/ /proc/driver/nvidia/version
export NCCL_DEBUG=INFO PYTHONPATH=$work/site-2.3.1 PATH=$work/bin:\$PATH
END
clock=$DDPRUN_BIN/libother_clock.so  # not in builds with sanitizers
[ ! -e "$clock" ] || echo "export LD_PRELOAD=$clock" >>"$work/.faults2"
echo '127.0.1.1 node3' | cat - "$work/hosts" >"$work/hosts3"
cat >"$work/.faults3" <<END
mount --bind "$work/hosts3" /etc/hosts
mount -t tmpfs -o size=64k tmpfs "$work/logs"
export GLOO_SOCKET_IFNAME=
END

doctor start 1
DDPRUN=$work/bin/ddprun doctor start 2
doctor run 3
expect_exit 1
for host in 1 2; do on $host finish; on $host expect_exit 1; done
for host in 1 2 3; do on $host expect_no_stderr 'failed first'; done
on 1 true
expect_stdout '^FAIL  program: [0-9a-f]{16} on node1, node3; [0-9a-f]{16} on node2$'
for package in torch jaxlib NCCL; do
  expect_stdout "^FAIL  $package: 2.4.0 on node1, node3; 2.3.1 on node2$"
done
expect_stdout '^FAIL  Python: 3\.[0-9.]+ on node1, node3; 3.9.9 on node2$'
expect_stdout "^FAIL  ddprun: $version on node1, node3; ${version%?}x on node2$"
expect_stdout '^warn  driver: 550.54.15 on node1, node3; 535.54.15 on node2$'
expect_stdout '^warn  GPUs: 1 NVIDIA H100 on node1, node3; 1 NVIDIA A100 on node2$'
expect_stdout '^FAIL  shared memory \(node2\): /dev/shm has 16 MiB free'
expect_stdout '^warn  open files \(node2\): a process may have 512 open'
expect_stdout '^warn  MTU: 1500 on node1, node3; 1400 on node2$'
expect_stdout '^FAIL  host name \(node3\): .* stands for 127.0.1.1'
expect_stdout '-> GLOO_SOCKET_IFNAME=eth0'
expect_stdout '^FAIL  interface: NCCL on node2 would take 192.168.77.2 \(ib0\), which node[13] does not reach'
expect_stdout '-> NCCL_SOCKET_IFNAME=eth0'
expect_stdout '^warn  NCCL_DEBUG: none on node1, node3; INFO on node2$'
expect_stdout "^FAIL  disk \(node3\): $work/logs cannot be written: No space left on device"
expect_stdout '^doctor: 10 failures, [0-9]+ warnings, .* 3 nodes$'
[ ! -e "$clock" ] || expect_stdout '^warn  clocks: that of node2 is (89|90|91)\.[0-9] s ahead'
expect_no_process_left
