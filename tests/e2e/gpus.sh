#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The status has what the driver says of each rank's GPU, a driver that hangs holds nothing up, and an error of a GPU
# in the kernel's log is the cause of a failure.
[ "$(id -u)" = 0 ] || { echo "needs root: a /proc/driver and a /dev/kmsg of its own" && exit 77; }
[ "${GPUS_OWN_MOUNTS:-}" ] || GPUS_OWN_MOUNTS=1 exec unshare --mount "$0" "$@"
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ -d /proc/driver ] && [ -e /dev/kmsg ] || skip "no /proc/driver or /dev/kmsg here"
mount -t tmpfs none /proc/driver
mkdir -p /proc/driver/nvidia/gpus/0000:{17,3b}:00.0
kmsg=$work/kmsg
touch "$kmsg"
mount --bind "$kmsg" /dev/kmsg
ln -s "$FAKE_NVML_LIBRARY" "$work/libnvidia-ml.so.1"
export LD_LIBRARY_PATH=$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FAKE_NVML="busy hot" XDG_RUNTIME_DIR=$work
unset CUDA_VISIBLE_DEVICES

shows() {  # shows REGEX
  local status
  status=$("$DDPRUN" status "$ddprun" 2>/dev/null) && grep -qE "$1" <<<"$status"
}

start --nproc_per_node 2 bash -c 'echo "here is rank $RANK"; exec sleep 600'
for rank in 0 1; do wait_for_stdout "here is rank $rank"; done
wait_until shows '^0 .* 97 %, 1\.0 GiB$'
wait_until shows '^1 .*running \(throttled: GPU 1 is too hot\).* 0 %, 1\.0 GiB$'

# The kernel's log is read from the moment on at which the agent opens it.
reads_kernel_log() { ls -l "/proc/$(agent_of)/fd" | grep -q "$kmsg\|/dev/kmsg"; }
wait_until reads_kernel_log
echo '4,1,10,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.' >>"$kmsg"
kill -ABRT "$(worker_of 1)"
finish
expect_stderr '^ddprun: rank 1 failed first: killed by SIGABRT .*: GPU 0000:3b:00: Xid 79 \(the GPU fell off the bus\), as this host'

mkfifo "$work/gate"
export FAKE_NVML_GATE=$work/gate
on stuck start --nproc_per_node 2 bash -c 'echo "here is rank $RANK"; exec sleep 600'
on stuck wait_for_stdout "here is rank 1"
wait_until shows '^1 '
shows ' GPU' && fail "GPUs are shown whose driver hangs"
"$DDPRUN" stop "$ddprun"
finish
expect_no_process_left
