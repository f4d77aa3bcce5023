#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process that ddprun may not signal when its worker ends, as it is root's, is stopped as soon as it may be.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ "$(id -u)" = 0 ] || skip "a program that becomes root needs root to make it"
user=(--reuid 65534 --regid 65534 --clear-groups)
chmod 755 "$work" && chown 65534 "$out" "$err" "$events"
install -m 4755 "$(command -v setpriv)" "$work/as_root"
setpriv "${user[@]}" "$work/as_root" --reuid 0 true || skip "programs here cannot become root"

# Root until ddprun has seen that its worker ended, which is when it tried to signal this one.
cat >"$work/orphan" <<'END'
echo >"$2"
while [ -e "/proc/$1" ]; do sleep 0.05; done
exec setpriv --reuid 65534 --regid 65534 --clear-groups sleep 600
END
mkfifo -m 666 "$work/ready"

# shellcheck disable=SC2034  # read by run
command_prefix[only]="setpriv ${user[*]}"
# shellcheck disable=SC2016  # the worker's shell
run --shutdown_timeout 600 sh -c 'setsid "$0/as_root" --reuid 0 sh "$0/orphan" $$ "$0/ready" & read -r _ <"$0/ready"' "$work"
expect_exit 0
expect_no_process_left
