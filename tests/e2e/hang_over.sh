#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers that end while it is read where they hang do not hang.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
python=$(command -v python3) || skip "there is no python3"

mkdir "$work/bin"
ln -s "$(readlink -f "$python")" "$work/bin/python3"
cat >"$work/bin/py-spy" <<END
#!/bin/sh
touch "$work/go"
while [ -d "/proc/\$(cat "$work/pid")" ]; do sleep 0.02; done
END
chmod +x "$work/bin/py-spy"
cat >"$work/train.py" <<'END'
import os, sys, time
folder = sys.argv[1]
open(folder + "/pid", "w").write(str(os.getpid()))
while not os.path.exists(folder + "/go"): time.sleep(0.05)
END
run --nproc_per_node 1 --hang_timeout 2 "$work/bin/python3" "$work/train.py" "$work"
expect_exit 0
[ -e "$work/go" ] || fail "nobody looked where the worker hangs"
expect_no_stderr 'has made progress'
expect_no_process_left
