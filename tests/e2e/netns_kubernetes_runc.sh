#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pods of a generated manifest, run by runc as the manifest has them: user 1000, a read-only root, no
# capabilities, volumes at /tmp and /dev/shm, process 1. Programs, log files, error files and the questions
# to a running job find what they need, and the job's secret, a mounted one; a name that comes late is waited
# for; a pod that is killed comes back with another address, also pod 0; SIGTERM ends a pod within its grace
# period, also where workers ignore it.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
tests=$(dirname "${BASH_SOURCE[0]}")
command -v runc >/dev/null || skip 'there is no runc'
python3 -c 'import yaml' 2>/dev/null || skip 'there is no python3 with yaml'
hosts 3 4
domain=train.default.svc.cluster.local
containers=()
remove_containers() {
  local each
  for each in "${containers[@]}"; do runc --root "$work/runc" delete --force "$each" 2>/dev/null || true; done
}
at_exit+=(remove_containers)

# A pod's volume for data.
data=$work/data
mkdir -m 777 "$data"
chmod 755 "$work"
cat >"$data/train.py" <<'END'
import os, signal, sys, tempfile, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
rank = os.environ['RANK']
try:
    open('/app/x', 'w')
except OSError as error:
    print('root:', error.strerror)
tempfile.TemporaryFile().close()
open('/dev/shm/x' + rank, 'w').close()
assert not any('SECRET' in name for name in os.environ)
try:
    print('environment:', open('/proc/%d/environ' % os.getppid()).read())
except OSError as error:
    print('environment:', error.strerror)
print('user', os.getuid(), 'home', os.path.expanduser('~'), 'rank', rank, 'begins', flush=True)
while not os.path.exists('/data/finish'):
    time.sleep(0.02)
sys.exit(3 if os.path.exists('/data/fail') and rank == '1' else 0)
END
mkdir -p "$data/.secrets/train-secret"
"$DDPRUN" secret "$data/.secrets/train-secret/secret"
chmod 700 "$data/.secrets"
"$DDPRUN" manifest job --name train --image registry/train:1 --nnodes 2 --lease 4 --gpus 0 --log_dir /tmp/logs \
  --secret train-secret --redirects 0:2 --heartbeat_interval 0.5 --shutdown_timeout 2 -- python3 /data/train.py >"$work/manifest"

"$DDPRUN" manifest job --name train --image registry/train:1 --nnodes 1 --gpus 0 -- true >"$work/probe"

# Ignores the command line that `start` makes: the manifest has it.
cat >"$work/pod" <<END
python3 "$tests/runc_bundle.py" "\$6" "\$1" "\$2" "\$3" "\$4" "$DDPRUN" "$data" || exit 99
exec runc --root "$work/runc" run --bundle "\$1" "\$5"
END
pod() {  # pod INDEX HOST [MANIFEST]
  local container=$net-$name
  containers+=("$container")
  mkdir "$work/pod.$name"
  command_prefix[$name]="sh $work/pod $work/pod.$name $1 /run/netns/$net-$2 $work/hosts.train-$1 $container
    ${3:-$work/manifest}"
  start manifest
}
know() {  # know INDEX HOST [LINE...]
  printf '127.0.0.1 localhost\n10.9.0.%s train-%s.%s train-%s\n' "$2" "$1" "$domain" "$1" >"$work/hosts.train-$1"
  printf '%s\n' "${@:3}" >>"$work/hosts.train-$1"
}
signal_pod() {
  runc --root "$work/runc" kill "$net-$name" "$1"
  finish
}
begun() {  # begun TIMES: both ranks, in the output of all pods
  local rank
  for rank in 0 1; do
    [ "$(cat "$work"/.*.stdout | grep -c "user 1000 home /tmp rank $rank begins")" -ge "$1" ] || return 1
  done
}

know 0 1
on probe pod 0 1 "$work/probe"
finish
[ "$code" = 0 ] || ! grep -i 'runc' "$err" >/dev/null || skip "no containers here: $(head -n 1 "$err")"
expect_exit 0

grep -q 'terminationGracePeriodSeconds: 7$' "$work/manifest" || fail 'another grace period'
know 1 2
on b pod 1 2
on b wait_for_stderr "waiting .* for the master at train-0.$domain:[0-9]*[:,] .*; giving up after"
know 1 2 "10.9.0.1 train-0.$domain"
on a pod 0 1
on a wait_until begun 1
on a expect_stdout 'root: Read-only file system'
on a expect_stdout 'environment: Permission denied'
runc --root "$work/runc" exec "$net-a" ddprun status >"$work/status" 2>&1 || fail "status: $(cat "$work/status")"
grep 'rank' "$work/status" >/dev/null || fail "status: $(cat "$work/status")"

on b signal_pod KILL
know 1 3 "10.9.0.1 train-0.$domain"
on c pod 1 3
on c wait_until begun 2

on a signal_pod KILL
know 0 2
on d pod 0 2
know 1 3 "10.9.0.2 train-0.$domain"
on d wait_until begun 3

on c signal_pod TERM
expect_exit 143
know 1 1 "10.9.0.2 train-0.$domain"
on e pod 1 1
on e wait_until begun 4

: >"$data/fail"
: >"$data/finish"
for pod in d e; do
  on "$pod" finish
  expect_exit 3
  expect_stderr 'rank 1'
done
expect_no_process_left
