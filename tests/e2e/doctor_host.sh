#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ddprun doctor on a host that has every fault that one host alone can have: in a mount namespace with limits, devices,
# disks and a driver of its own.
[ "$(id -u)" = 0 ] || { echo "needs root: mounts of its own" && exit 77; }
[ "${DOCTOR_OWN_MOUNTS:-}" ] || DOCTOR_OWN_MOUNTS=1 exec unshare --mount bash "$0" "$@"
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[ -d /proc/driver ] && [ -e /dev/kmsg ] || skip "no /proc/driver or /dev/kmsg here"
[ -e "${FAKE_NVML_LIBRARY:-}" ] || skip "FAKE_NVML_LIBRARY does not name the NVML of the tests"

mount -t tmpfs none /proc/driver
mkdir -p /proc/driver/nvidia/gpus/0000:0{0,1,2,3,4,5,6,7}:00.0
echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5' >/proc/driver/nvidia/version
echo '4,1,10,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.' >"$work/kmsg"
mount --bind "$work/kmsg" /dev/kmsg
ln -s "$FAKE_NVML_LIBRARY" "$work/libnvidia-ml.so.1"
export LD_LIBRARY_PATH=$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset CUDA_VISIBLE_DEVICES

mount -t tmpfs -o size=500m tmpfs /dev/shm
mkdir "$work/disk"
mount -t tmpfs -o size=500m tmpfs "$work/disk"
mount -t tmpfs tmpfs /proc/sys/kernel
mkdir /proc/sys/kernel/yama
echo 2 >/proc/sys/kernel/yama/ptrace_scope
mount -t tmpfs tmpfs /sys/class
mkdir -p /sys/class/infiniband/mlx5_{0,1}/ports/1
echo '4: ACTIVE' >/sys/class/infiniband/mlx5_0/ports/1/state
echo '1: DOWN' >/sys/class/infiniband/mlx5_1/ports/1/state

# Control groups of its own, of version 1, where there is one.
groups=()
leave_all() {
  local group
  umount -l "$work/disk" "$work"/dev/* 2>/dev/null || true
  for group in "${groups[@]}"; do
    echo $$ >"${group%/*}/cgroup.procs"
    rmdir "$group"
  done
}
at_exit+=(leave_all)
group() {  # group CONTROLLER FILE VALUE
  local group=/sys/fs/cgroup/$1/ddprun-doctor-$$
  [ -w "/sys/fs/cgroup/$1/$2" ] && mkdir "$group" 2>/dev/null || return 0
  groups+=("$group")
  echo "$3" >"$group/$2"
  echo $$ >"$group/cgroup.procs"
}
[ ! -e /sys/fs/cgroup/memory/memory.limit_in_bytes ] || group memory memory.limit_in_bytes 3G
[ ! -e /sys/fs/cgroup/cpu/cpu.cfs_quota_us ] || group cpu cpu.cfs_quota_us 400000

(
  ulimit -s unlimited
  ulimit -l 64
  ulimit -n 512
  export FAKE_NVML="gpu lost worn pending ecc full unlinked hot" TMPDIR=$work/disk
  run doctor --nproc_per_node 12 --log_dir /dev/null true
  expect_exit 1
  expect_stdout '^FAIL  GPUs: GPU 1: lost: it fell off the bus$'
  expect_stdout '^FAIL  GPUs: GPU 2: faulty memory cannot be remapped any more$'
  expect_stdout '^FAIL  locked memory: at most 64 KiB may be locked: NCCL and MPI cannot register'
  expect_stdout '^warn  GPUs: GPU 3: faulty memory is remapped at the next reset$'
  expect_stdout '^warn  GPUs: GPU 4: uncorrected memory errors \(ECC\)'
  expect_stdout '^warn  GPUs: GPU 5: other processes hold memory$'
  expect_stdout '^warn  GPUs: GPU .*6: links of NVLink are down$'
  expect_stdout '^warn  GPUs: GPU 7: its clocks are lowered'
  expect_stdout '^warn  GPUs: 8 GPUs for 12 workers: NCCL refuses two ranks on one$'
  expect_stdout "^warn  GPUs: the kernel's log since the boot has GPU 0000:3b:00: Xid 79"
  expect_stdout '^warn  InfiniBand: not active: mlx5_1/1 \(DOWN\)$'
  expect_stdout '^warn  shared memory: /dev/shm has 500 MiB free$'
  expect_stdout '^warn  open files: a process may have 512 open'
  # The thread sanitizer starts a process again that has no such limit, with one.
  [ -n "${TSAN_OPTIONS:-}" ] || expect_stdout '^warn  stack: its limit is unlimited'
  expect_stdout "^warn  disk: $work/disk has (499|500) MiB free$"  # ddprun has files there, too
  expect_stdout '^warn  diagnosis: kernel.yama.ptrace_scope is 2'
  [ ! -e "/sys/fs/cgroup/memory/ddprun-doctor-$$" ] ||
    expect_stdout '^warn  memory: the control group has 3(\.0)? GiB for 12 workers$'
  [ ! -e "/sys/fs/cgroup/cpu/ddprun-doctor-$$" ] || expect_stdout '^warn  CPUs: the control group has 4 for 12 workers$'
  [ "$(grep -cE '^(FAIL|warn) ' "$out")" = "$(grep -c '^      -> ' "$out")" ] || fail "not each has a remedy"
  [ ! -s "$err" ] || fail "something is on stderr"
) || exit 1

# No shared memory, and a driver that was updated while its module was loaded.
mkdir "$work/dev"
for name in null zero full random urandom tty; do
  touch "$work/dev/$name"
  mount --bind "/dev/$name" "$work/dev/$name"
done
mount --rbind "$work/dev" /dev
export FAKE_NVML=broken
run doctor true
expect_exit 1
expect_stdout '^FAIL  shared memory: there is no /dev/shm$'
expect_stdout '^FAIL  GPUs: the driver.s module and NVML are of different versions$'
umount -l /dev
expect_no_process_left
